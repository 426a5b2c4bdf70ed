"""One call on the CPU and on the emulated device: outputs, gradients and what it wrote in place must agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

#: relative and absolute tolerance of one rounding of a dtype (results are computed in float32 on the device)
CLOSE = {torch.float32: (2e-5, 2e-5), torch.bfloat16: (2e-2, 2e-2), torch.float16: (3e-3, 3e-3)}


def agree(
    function: Callable[..., Any],
    *args: Any,
    backward: bool = True,
    close: tuple[float, float] | None = None,
    reference: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> None:
    """``function(*args, **kwargs)`` on ``npu`` gives what ``reference`` (or itself) gives on the CPU.

    Tensors of the arguments are copied to each device, strides kept; floating ones get gradients of an
    output weighted at random, and are compared afterwards as well: an in-place operator must write them alike.
    """
    cpu = _run(reference or function, args, kwargs, "cpu", backward)
    npu = _run(function, args, kwargs, "npu", backward)
    for what in ("output", "gradient", "argument"):
        expected, actual = cpu[what], npu[what]
        assert len(expected) == len(actual), what
        for i, (e, a) in enumerate(zip(expected, actual, strict=True)):
            if isinstance(e, torch.Tensor):
                _close(a, e, close, f"{what} {i}")
            else:
                assert (e is None) == (a is None) and (e is None or e == a), f"{what} {i}: {a}, not {e}"


def _run(
    function: Callable[..., Any], args: Any, kwargs: Any, device: str, backward: bool
) -> dict[str, list[Any]]:
    leaves: list[torch.Tensor] = []

    def place(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        copy = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=device)
        copy.copy_(x)
        copy.requires_grad_(x.requires_grad and backward)
        leaves.append(copy)
        return copy

    args, kwargs = tree_map(place, args), tree_map(place, kwargs)
    outputs = tree_flatten(function(*args, **kwargs))[0]
    roots = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad and o.grad_fn is not None]
    gradients: list[Any] = []
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if roots and wanted:
        draw = torch.Generator().manual_seed(7)
        weights = [torch.randn(r.shape, generator=draw).to(r.dtype).to(device) for r in roots]
        gradients = list(torch.autograd.grad(roots, wanted, weights, allow_unused=True))
    host = lambda x: x.detach().cpu() if isinstance(x, torch.Tensor) else x  # noqa: E731
    return {
        "output": [host(o) for o in outputs],
        "gradient": [host(g) for g in gradients],
        "argument": [host(leaf) for leaf in leaves],
    }


def _close(
    actual: torch.Tensor, expected: torch.Tensor, close: tuple[float, float] | None, what: str
) -> None:
    assert actual.shape == expected.shape and actual.dtype == expected.dtype, (
        f"{what}: {actual.dtype} {tuple(actual.shape)}, not {expected.dtype} {tuple(expected.shape)}"
    )
    if expected.is_floating_point() or expected.is_complex():
        rtol, atol = close or CLOSE.get(expected.dtype, (1e-5, 1e-5))
        torch.testing.assert_close(
            actual, expected, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}: {m}"
        )
    else:
        assert torch.equal(actual, expected), f"{what}: {actual}, not {expected}"


def numbers(
    *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, grad: bool = False
) -> torch.Tensor:
    """Normal numbers, the same for the same seed."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)
    return drawn.requires_grad_(grad)


def whole(high: int, *shape: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    """Whole numbers of [0, high)."""
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)
