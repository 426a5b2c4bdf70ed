"""Learning-rate schedules: pure functions of the step, so that there is no state to save.

The formulas are those of Transformers' ``get_scheduler`` (``linear``, ``cosine``,
``constant_with_warmup``): with ``W`` warm-up steps of ``T`` in total, step ``s`` (from 0) uses

* ``s / max(1, W)`` while ``s < W``, then
* linear: ``(T - s) / max(1, T - W)``
* cosine: ``(1 + cos(pi * (s - W) / max(1, T - W))) / 2``
* constant: ``1``
"""

from __future__ import annotations

import math

from hetero.errors import RecipeError


def _linear(progress: float) -> float:
    return max(0.0, 1.0 - progress)


def _cosine(progress: float) -> float:
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))


def _constant(progress: float) -> float:
    return 1.0


_SHAPES = {"linear": _linear, "cosine": _cosine, "constant": _constant, "constant_with_warmup": _constant}

NAMES = tuple(_SHAPES)


def warmup_steps(total: int, steps: int = 0, ratio: float = 0.0) -> int:
    """Number of warm-up steps: ``steps`` if given, else ``ratio`` of ``total`` rounded up."""
    return steps if steps > 0 else math.ceil(total * ratio)


def factor(name: str, step: int, total: int, warmup: int = 0) -> float:
    """What the base learning rate is multiplied with at optimiser step ``step`` (from 0) of ``total``.

    Raises :class:`RecipeError` for a schedule that does not exist.
    """
    try:
        shape = _SHAPES[name]
    except KeyError:
        known = ", ".join(NAMES)
        raise RecipeError(f"lr_scheduler_type: {name!r} is not known; use one of {known}") from None
    if step < warmup:
        return step / max(1, warmup)
    return shape((step - warmup) / max(1, total - warmup))
