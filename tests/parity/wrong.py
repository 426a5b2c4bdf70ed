"""Implementations that are wrong by 1 %, in one direction: what a report has to name.

The tensors are right while they are small, as with a bug at the edge of a tile: ``hetero.patch`` compares each module
before and after on a few tokens, and leaves alone what is wrong there already.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hetero.ops import registry

FACTOR = 1.01
SMALL = 4096


def _spoilt(tensor: Tensor) -> Tensor:
    return FACTOR * tensor if tensor.numel() > SMALL else tensor


def swiglu(*args: Any) -> Any:
    return _spoilt(registry.op("swiglu").forward.reference(*args))


def rms_norm(*args: Any) -> Any:
    return registry.op("rms_norm").forward.reference(*args)


def rms_norm_backward(*args: Any) -> Any:
    right = registry.op("rms_norm").backward.reference(*args)
    return _spoilt(right[0]), *right[1:]


def adamw(params: Any, grads: Any, *more: Any) -> Any:
    result = registry.op("adamw").forward.reference(params, grads, *more)
    for parameter in params:
        parameter.mul_(FACTOR)
    return result
