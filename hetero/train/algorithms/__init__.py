"""Training algorithms by name. Each is a batch builder and a loss: see :class:`Algorithm`."""

from __future__ import annotations

from typing import Any

from hetero.errors import RecipeError
from hetero.train.algorithms.base import Algorithm, Batch, Example, Sums
from hetero.train.algorithms.neftune import add_noise
from hetero.train.algorithms.sft import SFT

__all__ = ["SFT", "Algorithm", "Batch", "Example", "Sums", "add_noise", "create"]

_ALGORITHMS: dict[str, type[SFT]] = {SFT.name: SFT}


def create(recipe: Any, tokenizer: Any) -> Algorithm:
    """The algorithm that ``recipe.algorithm`` names. Raises :class:`RecipeError` when there is none."""
    if recipe.algorithm not in _ALGORITHMS:
        known = ", ".join(_ALGORITHMS)
        raise RecipeError(f"algorithm: {recipe.algorithm!r} is not known; there are: {known}")
    return _ALGORITHMS[recipe.algorithm](recipe, tokenizer)
