"""Loss and metrics on held-out examples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from hetero.train.algorithms.base import Algorithm, Example
from hetero.train.distributed import Engine


def evaluate(
    model: nn.Module, algorithm: Algorithm, engine: Engine, examples: Sequence[Example], batch_size: int
) -> dict[str, float]:
    """``{"eval_loss": …, "eval_<metric>": …}`` over all ``examples``, dealt out to the ranks.

    The loss is the mean over all items (tokens, pairs), so it does not depend on batch size or ranks. Draws no
    random numbers: dropout and noise are off.
    """
    mine = range(engine.comm.rank, len(examples), engine.comm.world_size)
    parts = [mine[start : start + batch_size] for start in range(0, len(mine), batch_size)] or [range(0)]
    sums: dict[str, list[float]] = {"loss": [0.0, 1.0 / engine.comm.world_size]}
    training = model.training
    model.eval()
    try:
        batches = algorithm.build(engine, [[examples[i] for i in part] for part in parts])
        items, _ = engine.count(batches)
        for batch in batches:
            loss, more = engine.forward(batch, items)
            for name, pair in {"loss": loss.new_tensor([float(loss), 0.0]), **more}.items():
                before = sums.get(name, [0.0, 0.0])
                sums[name] = [a + b for a, b in zip(before, pair.tolist(), strict=True)]
    finally:
        model.train(training)
    means = _means(engine.comm.all_gather_object(sums))
    return {f"eval_{name}": value for name, value in (means | algorithm.derived(means)).items()}


def _means(ranks: Sequence[dict[str, list[float]]]) -> dict[str, float]:
    """Quotients of the sums over ranks; a metric that there was nothing for is left out."""
    means = {}
    for name in sorted({name for sums in ranks for name in sums}):
        above, below = (math.fsum(sums[name][i] for sums in ranks if name in sums) for i in (0, 1))
        if below:
            means[name] = above / below
    return means
