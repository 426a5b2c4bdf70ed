"""Which rows go into which micro-batch: deterministic, sharded by rank, and resumable at any point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from hetero.errors import CheckpointError

#: Rows that are sorted by length together; fixed, so that an order fits every batch and world size.
_BLOCK = 1024


class Sampler:
    """Row indices of one rank's micro-batches, epoch after epoch.

    In an epoch every row is visited exactly once by exactly one rank: nothing is repeated to fill up and
    nothing is dropped. The global order is cut into micro-batches of `batch_size * world_size` rows and
    rank r takes the r-th slice of each, so 1 rank x 4 rows and 2 ranks x 2 rows see the same global
    batches. All ranks yield the same number of micro-batches; in the last one a rank's list may be short,
    or empty (`collate([])` makes a batch of it that trains on nothing).

    Iterating gives the rest of the current epoch and then moves on to the next one. `state_dict` counts
    rows rather than batches, so a run may be resumed with another batch size or world size without
    skipping or repeating a row.

    With `lengths`, one a row, every `_BLOCK` rows of the order are sorted, the longest first: rows of a
    micro-batch are then of similar length and little of it is padding.
    """

    def __init__(
        self,
        rows: int,
        batch_size: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self.rows, self.batch_size, self.rank, self.world_size = rows, batch_size, rank, world_size
        self.shuffle, self.seed, self.lengths = shuffle, seed, lengths
        self.epoch = 0
        self.consumed = 0  # rows of this epoch that all ranks together have taken

    def __len__(self) -> int:
        """Micro-batches in a whole epoch, the same on every rank."""
        return -(-self.rows // (self.batch_size * self.world_size))

    def order(self) -> list[int]:
        """The global order of rows in the current epoch."""
        order = self._drawn()
        if (lengths := self.lengths) is None:
            return order
        blocks = (order[start : start + _BLOCK] for start in range(0, self.rows, _BLOCK))
        return [row for block in blocks for row in sorted(block, key=lambda row: -lengths[row])]

    def _drawn(self) -> list[int]:
        if not self.shuffle:
            return list(range(self.rows))
        # A generator of our own: the global one belongs to dropout, and resuming must not depend on it.
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.epoch) % 2**63)
        return torch.randperm(self.rows, generator=generator).tolist()

    def __iter__(self) -> Iterator[list[int]]:
        order = self.order()
        while self.consumed < self.rows:
            start = self.consumed + self.rank * self.batch_size
            stop = self.consumed + self.batch_size * self.world_size
            self.consumed = min(stop, self.rows)
            yield order[start : min(start + self.batch_size, self.rows)]
        self.epoch, self.consumed = self.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers that say where the sampler stands."""
        return {
            "epoch": self.epoch,
            "consumed": self.consumed,
            "rows": self.rows,
            "shuffle": self.shuffle,
            "seed": self.seed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken.

        Raises:
            CheckpointError: the state belongs to other data, another seed or another order.
        """
        for key in ("rows", "shuffle", "seed"):
            if state[key] != getattr(self, key):
                raise CheckpointError(
                    f"the checkpoint's data order has {key} {state[key]}, this run has {getattr(self, key)}: "
                    "it would skip some rows and repeat others; resume with the same recipe and data"
                )
        self.epoch, self.consumed = int(state["epoch"]), int(state["consumed"])
        if self.consumed >= self.rows:  # taken after the last micro-batch of an epoch
            self.epoch, self.consumed = self.epoch + 1, 0
