"""Log-probabilities of a reference, computed once for a data set and kept on disk.

The folder ``<root>/<key>`` holds parts ``part-<first row>``, each written whole or not at all with hashes of its
files, so that an interrupted pass goes on where it stopped and a damaged part is made again. The key is a hash of
everything that the numbers depend on: weights, data and how they are computed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from hetero.errors import CheckpointError, ModelError
from hetero.train.checkpoint import files, weights
from hetero.train.distributed import on_rank_0

if TYPE_CHECKING:
    from hetero.comm import Communicator
    from hetero.train.algorithms.base import Example
    from hetero.train.data.dataset import EncodedDataset

#: Rows whose numbers are written together: this much work may be lost to an interruption.
ROWS = 1024
_NUMBERS = "numbers.safetensors"


def default_root() -> Path:
    """``hetero/reference`` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hetero" / "reference"


def key_of(model: nn.Module, data: EncodedDataset, facts: Mapping[str, Any]) -> str:
    """Hash of the model's weights and configuration, the token ids and labels, and ``facts``, which JSON can hold."""
    digest = hashlib.sha256()

    def add(name: str, content: bytes) -> None:
        digest.update(f"{name}:{len(content)}:".encode())
        digest.update(content)

    for name, tensor in sorted(model.state_dict().items()):
        add(f"{name} {tensor.dtype} {tuple(tensor.shape)}", _bytes(tensor))
    add("config", json.dumps(model.config.to_dict(), sort_keys=True, default=str).encode())  # type: ignore[operator, union-attr]
    for name in ("ids", "labels", "offsets"):
        add(name, getattr(data, name).tobytes())
    add("facts", json.dumps(dict(facts), sort_keys=True).encode())
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def log_probs(
    folder: Path,
    examples: Sequence[Example],
    names: Sequence[str],
    compute: Callable[[Sequence[Example]], Tensor],
    batch_size: int,
    comm: Communicator,
) -> dict[str, np.ndarray]:
    """Float32 [examples] for each of ``names``, from ``folder`` as far as they are there.

    Args:
        folder: of this data and model; see :func:`key_of`.
        examples: all of them, on every rank.
        compute: gives float32 [len(names), n] for up to ``batch_size`` examples.
        comm: the work is dealt out to its ranks; rank 0 reads and writes the folder.

    Raises:
        CheckpointError: the folder cannot be written.
    """
    parts = []
    for first in range(0, len(examples), ROWS):
        rows = range(first, min(first + ROWS, len(examples)))
        path = folder / f"part-{first}"
        found = on_rank_0(comm, lambda path=path, rows=rows: _read(path, names, len(rows)))  # type: ignore[misc]
        if found is None:
            found = _compute(examples, rows, compute, batch_size, comm)
            on_rank_0(comm, lambda path=path, found=found: _write(path, names, found))  # type: ignore[misc]
        parts.append(np.array(found, dtype=np.float32))
    whole = np.concatenate(parts, axis=1) if parts else np.zeros((len(names), 0), np.float32)
    return dict(zip(names, whole, strict=True))


def _compute(
    examples: Sequence[Example],
    rows: range,
    compute: Callable[[Sequence[Example]], Tensor],
    batch_size: int,
    comm: Communicator,
) -> list[list[float]]:
    """This part, [names][rows]. Batches are whole on one rank, so ranks do not change a number."""
    batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    mine = [
        compute([examples[row] for row in batch]).tolist() for batch in batches[comm.rank :: comm.world_size]
    ]
    ranks = [iter(done) for done in comm.all_gather_object(mine)]
    ordered = [next(ranks[number % comm.world_size]) for number in range(len(batches))]
    found = [[value for batch in ordered for value in batch[name]] for name in range(len(ordered[0]))]
    for row, *values in zip(rows, *found, strict=True):
        if not all(map(math.isfinite, values)):
            raise ModelError(f"the reference model's log-probability of example {row} is not finite")
    return found


def _read(path: Path, names: Sequence[str], rows: int) -> list[list[float]] | None:
    if not files.complete(path):
        return None
    try:
        files.verify(path)
        tensors = weights.load_tensors(path / _NUMBERS)
        if sorted(tensors) != sorted(names) or any(t.shape != (rows,) for t in tensors.values()):
            raise CheckpointError(f"{path} holds other numbers than expected")
    except CheckpointError as error:
        warnings.warn(f"{error}. It is computed again.", stacklevel=2)
        return None
    return [tensors[name].tolist() for name in names]


def _write(path: Path, names: Sequence[str], found: list[list[float]]) -> None:
    with files.committing(path) as work:
        tensors = {name: torch.tensor(values) for name, values in zip(names, found, strict=True)}
        weights.save_tensors(tensors, work / _NUMBERS)
