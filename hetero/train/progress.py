"""How far a run has come: the numbers that training itself keeps count of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Progress:
    """Counts since the start of the run, over all processes.

    ``step`` counts accumulation windows, also those that were skipped because a loss or gradient was not
    finite; the learning rate and ``max_steps`` go by it. ``tokens`` counts input tokens without padding.
    """

    step: int = 0
    tokens: int = 0
    epoch: float = 0.0
    skipped: int = 0
    skipped_in_a_row: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)
