"""What a training algorithm is: a batch builder and a loss, nothing else.

The loop does the rest for every algorithm: accumulation windows, ranks, clipping, schedules, checkpoints,
metrics. A window is the micro-batches between two optimiser steps; it is the unit of normalisation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from hetero.errors import CheckpointError
from hetero.train.data.report import EncodeReport

if TYPE_CHECKING:
    from hetero.train.distributed import Engine

#: One encoded example: lists and numbers, as :mod:`hetero.train.data` gives it.
Example = dict[str, Any]
#: What one forward pass takes: tensors on the CPU until the loop moves them.
Batch = dict[str, Any]
#: How much there is of what a loss is a mean over: ``{"tokens": 120}``, ``{"pairs": 4, "tokens": 80}``.
Items = Mapping[str, int]


@dataclass(frozen=True)
class WindowShape:
    """What a window is made of on each rank.

    ``rows`` examples a list, ``lists`` lists of them a window, and each window is used for ``repeats`` steps.
    """

    rows: int
    lists: int
    repeats: int = 1


#: Metric name to a tensor ``[numerator, denominator]``; both are summed over the window and all ranks.
Sums = dict[str, Tensor]


class Algorithm(ABC):
    """Base of all algorithms. One is made for a run, from its recipe and tokenizer.

    The calls come in this order: :meth:`check`, :meth:`prepare` for each split, :meth:`begin`; then, for each
    step, :meth:`build`, :meth:`items` and :meth:`loss` of every batch, :meth:`after_step`.
    """

    #: The recipe's name for it.
    name: ClassVar[str]

    def windows(self, recipe: Any) -> WindowShape:
        """How the data is dealt out: as the recipe's batch size and accumulation say."""
        return WindowShape(recipe.per_device_train_batch_size, recipe.gradient_accumulation_steps)

    def check(self, model: nn.Module) -> None:  # noqa: B027 - most algorithms have nothing to check
        """Look at the model once, before training; raise :class:`~hetero.errors.ModelError` when unfit."""

    @abstractmethod
    def prepare(self, split: str) -> tuple[Sequence[Example], EncodeReport]:
        """The recipe's data for "train" or "eval", encoded once, and what happened to its rows."""

    def begin(self, engine: Engine, splits: Mapping[str, Sequence[Example]]) -> None:  # noqa: B027
        """Get ready with the untrained model and the data that :meth:`prepare` gave; every rank calls it.

        A run that is resumed comes here before the checkpoint's weights are loaded.
        """

    @abstractmethod
    def collate(self, examples: Sequence[Example]) -> Batch:
        """Build one micro-batch from encoded examples. Without any it trains on nothing: a rank without rows."""

    def build(self, engine: Engine, window: Sequence[Sequence[Example]]) -> list[Batch]:
        """The batches of a window, or of an evaluation. What needs the model before the loss is done here.

        Every rank calls it with as many lists of examples, so it may use the engine's sums over ranks. Algorithms
        that generate their own data (rollouts) do it here.
        """
        return [self.collate(examples) for examples in window]

    @abstractmethod
    def items(self, batch: Batch) -> Items:
        """How many items of each kind the loss of ``batch`` is a sum over; the same kinds for every batch."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, items: Items) -> tuple[Tensor, Sums]:
        """The micro-batch's share of the window's loss, and sums for metrics.

        ``items`` are those of the whole window over all ranks, at least 1 of each. The share is the sum over
        this batch's items divided by them, so that shares add up to the mean over the window however it
        is split. It must depend on every trained parameter (times 0 if need be), since ranks wait for them.
        The same names must be in the sums of every batch.
        """

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        """Further metrics from those of a step or an evaluation, which are quotients of sums."""
        return {}

    def after_step(self, model: nn.Module, step: int) -> None:  # noqa: B027
        """Called after optimiser step number ``step`` (from 1) of the run."""

    @abstractmethod
    def tokens(self, batch: Batch) -> int:
        """Number of input tokens in ``batch`` without padding, for throughput."""

    def modules(self) -> dict[str, nn.Module]:
        """Further models whose weights change during the run; checkpoints hold them under these names."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """State that a checkpoint must hold, as JSON can: buffered rollouts, running baselines."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""
        if state:
            raise CheckpointError(f"the checkpoint has state of {self.name} that this version does not know")
