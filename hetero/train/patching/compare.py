"""Whether a new forward gives the numbers of the old one, up to rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from hetero.train.patching.kind import Refused

#: Both forwards are tried in these, whatever the model's dtype: it may be converted later.
DTYPES = (torch.float32, torch.bfloat16)

# Roundings by which two right answers may part, in units in the last place of the largest output. In float32
# they part by what exp, tanh or a sum in another order cost; in bf16 by intermediates that one side rounds
# and the other does not (at most three of them in a row: rotary's two products and their sum).
_ULPS = 8


def device_of(module: nn.Module) -> torch.device | None:
    """Where the module's parameters are; None when it has none."""
    return next((parameter.device for parameter in module.parameters()), None)


def random(*shape: int, like: Tensor, dtype: torch.dtype) -> Tensor:
    """Standard normal numbers, the same on every call and device; the global generator is left alone."""
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(*shape, generator=generator).to(device=like.device, dtype=dtype)


def distance(new: Tensor, old: Tensor) -> float:
    """The largest difference in units in the last place of the largest old value; NaN counts as infinite.

    It is worked out on the CPU: not every device computes in float64.
    """
    if new.shape != old.shape or new.dtype != old.dtype:
        return float("inf")
    a, b = (t.detach().cpu().double() for t in (new, old))
    unit = torch.finfo(old.dtype).eps * b.abs().max().clamp(min=1e-30)
    worst = float((a - b).abs().max() / unit)
    return float("inf") if math.isnan(worst) else worst


def require(new: Sequence[Tensor], old: Sequence[Tensor], what: str) -> None:
    """Raise Refused when one of the outputs differs by more than rounding."""
    for a, b in zip(new, old, strict=True):
        if (ulps := distance(a, b)) > 1000 * _ULPS:
            raise Refused(f"{what} computes something else")
        elif ulps > _ULPS:
            raise Refused(f"{what} differs by {ulps:.0f} units in the last place in {b.dtype}")


def values_and_gradients(
    forward: Callable[..., Tensor | tuple[Tensor, ...]], *inputs: Tensor
) -> list[Tensor]:
    """Outputs of `forward` and the gradients of `inputs` for a fixed random upstream gradient."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    with torch.enable_grad():
        outputs = forward(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        upstream = [random(*y.shape, like=y, dtype=y.dtype) for y in outputs]
        gradients = torch.autograd.grad(outputs, leaves, upstream)
    return [*outputs, *gradients]
