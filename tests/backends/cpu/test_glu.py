"""swiglu and geglu against autograd in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hetero.backends.cpu import glu

KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "swiglu": (glu.swiglu, glu.swiglu_backward, F.silu),
    "geglu": (
        lambda a, b: glu.geglu(a, b, "none"),
        lambda g, a, b: glu.geglu_backward(g, a, b, "none"),
        F.gelu,
    ),
    "geglu tanh": (
        lambda a, b: glu.geglu(a, b, "tanh"),
        lambda g, a, b: glu.geglu_backward(g, a, b, "tanh"),
        lambda a: F.gelu(a, approximate="tanh"),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 3, 17), (4, 1000), (3, 1023), (0, 8), (2, 0)])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_values(
    isa: str, draw: Callable[..., Tensor], check: Callable, kind: str, shape: tuple, scale: float
) -> None:
    forward, backward, act = KINDS[kind]
    a, b, g = draw(*shape, scale=scale), draw(*shape), draw(*shape)
    check([forward(a, b), *backward(g, a, b)], lambda a, b: act(a) * b, [a, b], [g])


@pytest.mark.parametrize("kind", KINDS)
def test_halves_of_a_row_and_other_layouts(isa: str, draw: Callable[..., Tensor], kind: str) -> None:
    forward, backward, _ = KINDS[kind]
    wide, g = draw(5, 2 * 41), draw(5, 41)
    gate, up = wide.chunk(2, -1)
    y, d = forward(gate.clone(), up.clone()), backward(g, gate.clone(), up.clone())
    assert torch.equal(forward(gate, up), y)
    assert all(map(torch.equal, backward(g, gate, up), d))
    columns = [t.t().contiguous().t() for t in (g, gate, up)]
    assert torch.equal(forward(*columns[1:]), y)
    assert all(map(torch.equal, backward(*columns), d))


@pytest.mark.parametrize("kind", KINDS)
def test_far_tails(isa: str, kind: str) -> None:
    """No overflow turns into NaN: the activation is 0 or the identity there, its slope 0 or 1."""
    forward, backward, _ = KINDS[kind]
    a = torch.tensor([-3e38, -1e10, -200.0, 200.0, 1e10, 3e38])
    one = torch.ones_like(a)
    assert forward(a, one).tolist() == [0, 0, 0, *a[3:].tolist()]
    assert backward(one, a, one)[0].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_not_finite(isa: str, dtype: torch.dtype, kind: str) -> None:
    """Not beside torch: with AVX-512 its own float32 gelu makes NaN of infinity."""
    forward, backward, _ = KINDS[kind]
    a = torch.tensor([float("nan"), float("inf"), 1.0, 2.0] * 5, dtype=dtype)
    b = torch.ones_like(a)
    y = forward(a, b)
    assert torch.equal(y.isnan(), a.isnan())
    assert torch.equal(y.isinf(), a.isinf())
    assert backward(b, a, b)[0].isfinite()[2::4].all()


def test_scalars(isa: str) -> None:
    a, b = torch.tensor(0.3), torch.tensor(2.0)
    torch.testing.assert_close(glu.swiglu(a, b), F.silu(a) * b)
    assert [t.shape for t in glu.swiglu_backward(b, a, b)] == [(), ()]
