"""Rewards of completions: named functions, called so that none can spoil another's.

A reward function has TRL's signature::

    def reward(prompts, completions, completion_ids, **columns) -> list[float | None]

``columns`` are the dataset's other columns, one value a completion; it may be async. None means that the function does
not apply to that completion.
"""

from hetero.train.rewards.load import load
from hetero.train.rewards.score import Rewards

__all__ = ["Rewards", "load"]
