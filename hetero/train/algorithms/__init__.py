"""Training algorithms by name. Each is a batch builder and a loss: see :class:`Algorithm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hetero.errors import RecipeError
from hetero.train.algorithms.base import Algorithm, Batch, Example, Items, Sums
from hetero.train.algorithms.dpo import DPO
from hetero.train.algorithms.grpo import GRPO
from hetero.train.algorithms.kto import KTO
from hetero.train.algorithms.neftune import add_noise
from hetero.train.algorithms.rm import RM
from hetero.train.algorithms.sft import SFT

__all__ = [
    "DPO",
    "GRPO",
    "KTO",
    "RM",
    "SFT",
    "Algorithm",
    "Batch",
    "Example",
    "Items",
    "Sums",
    "add_noise",
    "create",
    "names",
]

_ALGORITHMS: dict[str, Callable[[Any, Any], Algorithm]] = {a.name: a for a in (SFT, DPO, KTO, RM, GRPO)}


def create(recipe: Any, tokenizer: Any) -> Algorithm:
    """The algorithm that ``recipe.algorithm`` names. Raises :class:`RecipeError` when there is none."""
    if recipe.algorithm not in _ALGORITHMS:
        known = ", ".join(_ALGORITHMS)
        raise RecipeError(f"algorithm: {recipe.algorithm!r} is not known; there are: {known}")
    return _ALGORITHMS[recipe.algorithm](recipe, tokenizer)


def names() -> tuple[str, ...]:
    """What ``algorithm`` may be in a recipe."""
    return tuple(_ALGORITHMS)
