"""adamw against torch.optim.AdamW, clip_grad_norm against torch.nn.utils, both in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hetero.backends.cpu import optim

SHAPES = [(1,), (3, 7), (1023,), (0,), (64, 33), (50_000,)]
HYPER = {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}


def step(params, grads, m, v, masters, scale, number) -> None:  # type: ignore[no-untyped-def]
    optim.adamw(params, grads, m, v, masters, scale, 1e-2, 0.9, 0.99, 1e-8, 0.1, number)


def error(got: list[Tensor], want: list[Tensor]) -> float:
    return max((g.double() - w.double()).abs().max().item() if w.numel() else 0.0 for g, w in zip(got, want))


@pytest.mark.parametrize("steps", [1, 5])
def test_float32_as_torch(isa: str, generator: torch.Generator, threads: int, steps: int) -> None:
    start = [torch.randn(s, generator=generator) for s in SHAPES]
    exact, plain = ([p.to(d).clone().requires_grad_() for p in start] for d in (torch.float64, torch.float32))
    in_double, in_float = torch.optim.AdamW(exact, **HYPER), torch.optim.AdamW(plain, foreach=False, **HYPER)
    params = [p.clone() for p in start]
    m, v = [torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params]
    for number in range(1, steps + 1):
        grads = [torch.randn(s, generator=generator) for s in SHAPES]
        for group in (exact, plain):
            for p, g in zip(group, grads):
                p.grad = g.to(p.dtype)
        in_double.step()
        in_float.step()
        step(params, grads, m, v, [], None, number)
    assert error(params, exact) <= 4 * error(plain, exact) + 1e-7
    assert error(m, [in_double.state[p]["exp_avg"] for p in exact]) < 1e-6
    assert error(v, [in_double.state[p]["exp_avg_sq"] for p in exact]) < 1e-6


def test_bfloat16_with_masters(isa: str, generator: torch.Generator) -> None:
    """The master is what float32 would give, the parameter is its rounding; small steps are not lost."""
    masters = [torch.randn(s, generator=generator) for s in SHAPES]
    params = [p.bfloat16() for p in masters]
    grads = [torch.randn(s, generator=generator).bfloat16() for s in SHAPES]
    m, v = [torch.zeros_like(p) for p in masters], [torch.zeros_like(p) for p in masters]
    wide, wide_m, wide_v = ([t.clone() for t in ts] for ts in (masters, m, v))
    for number in range(1, 4):
        step(params, grads, m, v, masters, None, number)
        step(wide, [g.float() for g in grads], wide_m, wide_v, [], None, number)
    assert all(map(torch.equal, masters, wide))
    assert all(torch.equal(p, w.bfloat16()) for p, w in zip(params, wide))


def test_bfloat16_without_masters_and_float32_gradients(isa: str, generator: torch.Generator) -> None:
    params = [torch.randn(s, generator=generator).bfloat16() for s in SHAPES]
    grads = [torch.randn(s, generator=generator) for s in SHAPES]
    wide = [p.float() for p in params]
    state = [[torch.zeros_like(p) for p in wide] for _ in range(4)]
    step(params, grads, state[0], state[1], [], None, 1)
    step(wide, grads, state[2], state[3], [], None, 1)
    assert all(torch.equal(p, w.bfloat16()) for p, w in zip(params, wide))


def test_gradients_are_scaled_but_not_changed(isa: str, generator: torch.Generator) -> None:
    params = [torch.randn(100, generator=generator)]
    grads = [torch.randn(100, generator=generator)]
    other, before = [params[0].clone()], grads[0].clone()
    state = [[torch.zeros(100)] for _ in range(4)]
    step(params, grads, state[0], state[1], [], torch.tensor(0.25), 1)
    step(other, [grads[0] * 0.25], state[2], state[3], [], None, 1)
    assert torch.equal(params[0], other[0]) and torch.equal(grads[0], before)


def transposed(t: Tensor) -> Tensor:
    return t.t().contiguous().t()


def gappy(t: Tensor) -> Tensor:
    return torch.stack([t, t], -1)[..., 0]


@pytest.mark.parametrize("layout", [transposed, gappy])
@pytest.mark.parametrize("everything", [True, False], ids=["all alike", "gradient only"])
def test_layouts(
    isa: str, generator: torch.Generator, layout: Callable[[Tensor], Tensor], everything: bool
) -> None:
    p, g = torch.randn(6, 9, generator=generator), torch.randn(6, 9, generator=generator)
    plain = [[p.clone()], [g], [torch.zeros(6, 9)], [torch.zeros(6, 9)]]
    other = [[layout(t[0].clone()) if everything or i == 1 else t[0].clone()] for i, t in enumerate(plain)]
    step(*plain, [], None, 1)
    step(*other, [], None, 1)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(plain, other))


def test_empty_lists(kernels: object) -> None:
    step([], [], [], [], [], None, 1)
    assert optim.clip_grad_norm([], 1.0).item() == 0


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_clip(isa: str, draw: Callable[..., Tensor], threads: int, scale: float) -> None:
    grads = [draw(*s, scale=scale) for s in SHAPES]
    exact = [torch.nn.Parameter(torch.empty(s, dtype=torch.float64)) for s in SHAPES]
    for e, g in zip(exact, grads):
        e.grad = g.double()
    want = torch.nn.utils.clip_grad_norm_(exact, 1.0)
    got = optim.clip_grad_norm(grads, 1.0)
    assert got.dtype == torch.float32 and got.shape == ()
    torch.testing.assert_close(got.double(), want, rtol=1e-6, atol=0)
    for e, g in zip(exact, grads):
        torch.testing.assert_close(g.double(), e.grad, rtol=torch.finfo(g.dtype).eps, atol=1e-9)


def test_clip_does_not_touch_what_is_small_enough(isa: str, draw: Callable[..., Tensor]) -> None:
    grads = [draw(100, scale=1e-3)]
    before = grads[0].clone()
    optim.clip_grad_norm(grads, 1.0)
    assert torch.equal(grads[0], before)
    optim.clip_grad_norm(grads, float("inf"))
    assert torch.equal(grads[0], before)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_clip_when_not_finite_as_torch(isa: str, bad: float) -> None:
    grads = [torch.ones(40), torch.ones(3)]
    grads[0][7] = bad
    p = [torch.nn.Parameter(torch.empty_like(g)) for g in grads]
    for a, g in zip(p, grads):
        a.grad = g.clone()
    want = torch.nn.utils.clip_grad_norm_(p, 1.0)
    torch.testing.assert_close(optim.clip_grad_norm(grads, 1.0), want, equal_nan=True)
    for a, g in zip(p, grads):
        torch.testing.assert_close(g, a.grad, equal_nan=True)


def test_clip_layouts(isa: str, draw: Callable[..., Tensor]) -> None:
    plain = [draw(6, 9, scale=9)]
    for layout in (transposed, gappy):
        other, flat = [layout(plain[0].clone())], [plain[0].clone()]
        torch.testing.assert_close(optim.clip_grad_norm(other, 1.0), optim.clip_grad_norm(flat, 1.0))
        torch.testing.assert_close(other[0], flat[0])
