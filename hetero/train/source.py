"""From encoded examples to accumulation windows, epoch after epoch, from any position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hetero.train.algorithms.base import Example
from hetero.train.data.sampler import Sampler


class Windows:
    """Windows of ``accumulation`` micro-batches of this rank. An epoch's last window may have fewer.

    Each window is given ``repeats`` times in a row. Its state is the sampler's, and how often the present window
    has been given: it stands at a window's edge whenever the loop can save.
    """

    def __init__(
        self, examples: Sequence[Example], sampler: Sampler, accumulation: int, repeats: int = 1
    ) -> None:
        self._examples, self._sampler, self._accumulation = examples, sampler, accumulation
        self._repeats, self._given = repeats, 0
        self._batches: Iterator[list[int]] = iter(())
        self._window: list[list[Example]] = []

    @property
    def steps_per_epoch(self) -> int:
        """Steps in a whole epoch."""
        return -(-len(self._sampler) // self._accumulation) * self._repeats

    @property
    def epoch(self) -> float:
        """Epochs done so far, with the fraction of the current one."""
        return self._sampler.epoch + self._sampler.consumed / self._sampler.rows

    def next_window(self) -> list[list[Example]]:
        """The next window: a list of examples for each micro-batch; never without a micro-batch."""
        if 0 < self._given < self._repeats:
            self._given += 1
            return self._window
        window: list[list[Example]] = []
        while not window:
            for rows in self._batches:
                window.append([self._examples[row] for row in rows])
                if len(window) == self._accumulation:
                    break
            else:
                # The end of an epoch closes a window, so that no window mixes two orders of the rows.
                if not window:
                    self._batches = iter(self._sampler)
        self._window, self._given = window, 1
        return window

    def state_dict(self) -> dict[str, Any]:
        """Position in the data."""
        return self._sampler.state_dict() | {"given": self._given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position; :class:`~hetero.errors.CheckpointError` when it is one of other data."""
        self._sampler.load_state_dict(state)
        self._batches = iter(())
        # What is left of a window's turns has no rows to come with: its user keeps what it made of them.
        self._window, self._given = [], int(state.get("given", 0))
