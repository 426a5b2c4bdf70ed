"""Loss and metrics on held-out examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from hetero.train.algorithms.base import Algorithm, Example
from hetero.train.distributed import Engine

if TYPE_CHECKING:
    from hetero.comm import Communicator


def evaluate(
    model: nn.Module,
    algorithm: Algorithm,
    engine: Engine,
    comm: Communicator,
    examples: Sequence[Example],
    batch_size: int,
) -> dict[str, float]:
    """``{"eval_loss": …, "eval_<metric>": …}`` over all ``examples``, dealt out to the ranks.

    The loss is the mean over all items (tokens), so it does not depend on batch size or ranks. Draws no
    random numbers: dropout and noise are off.
    """
    mine = range(comm.rank, len(examples), comm.world_size)
    sums: dict[str, list[float]] = {"loss": [0.0, 0.0]}
    training = model.training
    model.eval()
    try:
        for start in range(0, len(mine), batch_size):
            batch = algorithm.collate([examples[i] for i in mine[start : start + batch_size]])
            loss, more = engine.forward(batch, 1)
            found = {"loss": [float(loss), float(algorithm.items(batch))]}
            found |= {name: pair.tolist() for name, pair in more.items()}
            for name, pair in found.items():
                before = sums.get(name, [0.0, 0.0])
                sums[name] = [a + b for a, b in zip(before, pair, strict=True)]
    finally:
        model.train(training)
    return _means(comm.all_gather_object(sums))


def _means(ranks: Sequence[dict[str, Any]]) -> dict[str, float]:
    names = sorted({name for sums in ranks for name in sums})
    means = {}
    for name in names:
        parts = [sums[name] for sums in ranks if name in sums]
        over = math.fsum(p[1] for p in parts)
        means[f"eval_{name}"] = math.fsum(p[0] for p in parts) / max(over, 1.0)
    return means
