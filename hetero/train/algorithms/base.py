"""What a training algorithm is: a batch builder and a loss, nothing else.

The loop does the rest for every algorithm: accumulation windows, ranks, clipping, schedules, checkpoints,
metrics. A window is the micro-batches between two optimiser steps; it is the unit of normalisation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from hetero.errors import CheckpointError
from hetero.train.data.report import EncodeReport

#: One encoded example: lists and numbers, as :mod:`hetero.train.data` gives it.
Example = dict[str, Any]
#: What one forward pass takes: tensors on the CPU until the loop moves them.
Batch = dict[str, Any]
#: Metric name to a tensor ``[numerator, denominator]``; both are summed over the window and all ranks.
Sums = dict[str, Tensor]


class Algorithm(ABC):
    """Base of all algorithms. One is made for a run, from its recipe, tokenizer and model."""

    #: The recipe's name for it.
    name: ClassVar[str]

    @abstractmethod
    def prepare(self, split: str) -> tuple[Sequence[Example], EncodeReport]:
        """The recipe's data for "train" or "eval", encoded once, and what happened to its rows."""

    def check(self, model: nn.Module) -> None:  # noqa: B027 - most algorithms have nothing to check
        """Look at the model once, before training; raise :class:`~hetero.errors.ModelError` when unfit."""

    @abstractmethod
    def collate(self, examples: Sequence[Example]) -> Batch:
        """Build one micro-batch from encoded examples."""

    @abstractmethod
    def items(self, batch: Batch) -> int:
        """How many items (tokens for SFT, pairs for DPO) the loss of ``batch`` is a sum over."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, items: Tensor | int) -> tuple[Tensor, Sums]:
        """The micro-batch's share of the window's loss, and sums for metrics.

        ``items`` is the number of items of the whole window over all ranks, at least 1. The share is the sum
        over this batch's items divided by it, so that shares add up to the mean over the window however it
        is split. It must depend on every trained parameter (times 0 if need be), since ranks wait for them.
        The same names must be in the sums of every batch.
        """

    def build(self, model: nn.Module, window: Sequence[Sequence[Example]]) -> list[Batch]:
        """The batches of a window. Algorithms that generate their own data (rollouts) do it here."""
        return [self.collate(examples) for examples in window]

    @abstractmethod
    def tokens(self, batch: Batch) -> int:
        """Number of input tokens in ``batch`` without padding, for throughput."""

    def state_dict(self) -> dict[str, Any]:
        """State that a checkpoint must hold, as JSON can: buffered rollouts, running baselines."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""
        if state:
            raise CheckpointError(f"the checkpoint has state of {self.name} that this version does not know")
