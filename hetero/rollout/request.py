"""What is asked of a rollout engine, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hetero.errors import RolloutError
from hetero.rollout.sampling import Sampling


@dataclass(frozen=True)
class Request:
    """``count`` completions of one prompt, given as token ids. The prompt is run once for all of them."""

    prompt_ids: Sequence[int]
    sampling: Sampling = field(default_factory=Sampling)
    count: int = 1

    def __post_init__(self) -> None:
        if not len(self.prompt_ids):
            raise RolloutError(
                "a prompt is empty; give it at least one token (the beginning-of-sequence token, say)"
            )
        if self.count < 1:
            raise RolloutError(f"count is {self.count}; it must be at least 1")


@dataclass(frozen=True)
class Completion:
    """One completion.

    Args:
        ids: token ids drawn, with the end-of-sequence token if that ended it.
        log_probs: of each, float32, under the whole vocabulary at the request's temperature.
        finish_reason: "stop" (an end-of-sequence token or a stop string) or "length".
        version: of the weights that drew it; a trainer counts its updates here.
    """

    ids: list[int]
    log_probs: list[float]
    finish_reason: str
    version: int = 0
