"""Large shapes, extreme values, rows that do not count, and what cannot be an error on a device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from hetero.backends.ascend import ascendc_glu, ascendc_linear, ascendc_loss, ascendc_norm, ascendc_rope
from hetero.ops.definitions import cross_entropy as reference
from hetero.ops.spec import Sample

Draw = Callable[..., torch.Tensor]
PLAIN = (-100, 0.0, 0.0, 0.0)


@pytest.fixture
def dtype() -> torch.dtype:
    return torch.bfloat16


def test_more_rows_than_a_16_bit_grid(on: Callable[..., None], draw: Draw) -> None:
    on(40)
    rows = 65535 + 7
    x, residual, weight = draw(rows, 3), draw(rows, 3), draw(3)
    y, s, rstd = ascendc_norm.fused_add_rms_norm(x, residual, weight, 1e-6, 0.0, "gemma")
    assert torch.equal(s, x + residual)
    expected = torch.rsqrt(s.double().square().mean(-1) + 1e-6)
    torch.testing.assert_close(rstd.double(), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(
        y.double(), s.double() * expected[:, None] * weight.double(), rtol=2**-8, atol=0
    )
    g = draw(rows, 3)
    _, d_weight = ascendc_norm.fused_add_rms_norm_backward(
        g, torch.zeros_like(g), s, weight, rstd, 0.0, "gemma"
    )
    exact = (g.double() * s.double() * expected[:, None]).sum(0)
    torch.testing.assert_close(d_weight.double(), exact, rtol=2**-8, atol=0.01)


def test_long_rows(check: Callable[..., None], on: Callable[..., None], draw: Draw) -> None:
    on(40)
    x = draw(2, 16384)
    check("fused_add_rms_norm", [Sample("", (x, draw(2, 16384), draw(16384), 1e-6, 0.0, "llama"))])
    check("cross_entropy", [Sample("", (x, torch.tensor([16383, -100]), *PLAIN))])
    check("swiglu", [Sample("", (x, draw(2, 16384)))])


def test_empty(check: Callable[..., None], draw: Draw) -> None:
    none = torch.empty(0, dtype=torch.long)
    check("swiglu", [Sample("", (draw(0, 5), draw(0, 5)))])
    check("fused_add_rms_norm", [Sample("", (draw(0, 5), draw(0, 5), draw(5), 1e-6, 0.0, "llama"))])
    check("cross_entropy", [Sample("", (draw(0, 5), none, *PLAIN))])
    check("linear_log_prob", [Sample("", (draw(0, 5), draw(7, 5), None, none, 1.0, 0.0, -100))])


def test_extreme_logits(on: Callable[..., None]) -> None:
    inf = float("inf")
    logits = torch.tensor(
        [[1e30, -1e30, 0.0], [-inf, -inf, 2.0], [3.0, inf, 1.0], [88.0, 89.0, 90.0], [-inf] * 3]
    )
    labels = torch.tensor([0, 2, 0, 1, 1])
    for buffer in (188160, 4096):
        on(2, buffer)
        loss, lse = ascendc_loss.cross_entropy(logits, labels, *PLAIN)
        expected, expected_lse = reference.OP.forward.reference(logits, labels, *PLAIN)
        torch.testing.assert_close(loss, expected, equal_nan=True)
        torch.testing.assert_close(lse, expected_lse, equal_nan=True)


def test_rising_logits_over_tiles(check: Callable[..., None], on: Callable[..., None]) -> None:
    """Each tile's largest logit is above all before it, so that every sum so far is scaled down."""
    on(2, 4096)
    z = torch.linspace(-300, 300, 1000).repeat(2, 1).to(torch.bfloat16)
    check("cross_entropy", [Sample("", (z, torch.tensor([0, 999]), *PLAIN))])
    hidden, weight = torch.ones(2, 1), torch.linspace(-60, 60, 700)[:, None]
    outputs = ascendc_linear.linear_log_prob(hidden, weight, None, torch.tensor([0, 699]), 1.0, 0.0, -100)
    logp = torch.log_softmax(weight.double().T, -1)
    entropy = -(logp.exp() * logp).sum()
    torch.testing.assert_close(outputs[0].double(), logp[0, [0, 699]], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(outputs[1].double(), entropy.expand(2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ignore", [-100, 2, -1])
def test_ignored_rows_are_zero_whatever_they_hold(on: Callable[..., None], ignore: int) -> None:
    logits = torch.full((3, 70), float("nan"))
    labels = torch.full((3,), ignore)
    loss, lse = ascendc_loss.cross_entropy(logits, labels, ignore, 0.1, 1e-3, 30.0)
    assert not loss.any()
    assert not lse.any()
    d = ascendc_loss.cross_entropy_backward(torch.ones(3), logits, labels, lse, ignore, 0.1, 1e-3, 30.0)
    assert not d.any()


def test_label_out_of_range_is_not_a_number(on: Callable[..., None]) -> None:
    logits, labels = torch.randn(3, 5), torch.tensor([5, 1, -1])
    loss, lse = ascendc_loss.cross_entropy(logits, labels, *PLAIN)
    assert loss.isnan().tolist() == [True, False, True]
    d = ascendc_loss.cross_entropy_backward(torch.ones(3), logits, labels, lse, *PLAIN)
    assert d.isnan().any(-1).tolist() == [True, False, True]


def test_position_out_of_range_is_not_a_number(on: Callable[..., None]) -> None:
    q = torch.randn(1, 3, 2, 4)
    tables = torch.rand(4, 2), torch.rand(4, 2)
    out, _ = ascendc_rope.rope(q, q, *tables, torch.tensor([[4, 3, -1]]), False, False)
    assert out.isnan().any(-1).any(-1).tolist() == [[True, False, True]]


def test_gradient_may_overwrite_the_logits(on: Callable[..., None]) -> None:
    hidden, weight = torch.randn(5, 4), torch.randn(9, 4)
    labels = torch.tensor([0, 8, -100, 3, 4])
    rest = (1.0, 0.0, -100)
    _, entropy, lse = ascendc_linear.linear_log_prob(hidden, weight, None, labels, *rest)
    ones = torch.ones(5)
    got = ascendc_linear.linear_log_prob_backward(
        ones, 0 * ones, hidden, weight, None, labels, lse, entropy, *rest, True, True
    )
    h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    kept = labels != -100
    torch.nn.functional.cross_entropy(h @ w.T, labels, reduction="sum").neg().backward()
    torch.testing.assert_close(got[0], h.grad)
    torch.testing.assert_close(got[1], w.grad)
    assert not got[0][~kept].any()


def test_nothing_depends_on_the_number_of_cores(on: Callable[..., None], draw: Draw) -> None:
    gate, up, g = draw(50, 33), draw(50, 33), draw(50, 33)

    def results(cores: int) -> list[torch.Tensor]:
        on(cores)
        norm = ascendc_norm.fused_add_rms_norm(gate, up, None, 1e-6, 0.0, "llama")
        return [*ascendc_glu.swiglu_backward(g, gate, up), *norm]

    assert all(torch.equal(a, b) for a, b in zip(results(1), results(40)))


def test_long_sums_stay_accurate(on: Callable[..., None], generator: torch.Generator) -> None:
    """A mean square over 65536 values, and a weight gradient over 20000 rows: near torch's own pairwise error."""
    on(4)
    x = torch.rand(1, 65536, generator=generator) + 0.5
    _, s, rstd = ascendc_norm.fused_add_rms_norm(x, torch.zeros_like(x), None, 0.0, 0.0, "llama")
    exact = torch.rsqrt(s.double().square().mean(-1))
    assert ((rstd.double() - exact).abs() / exact).item() < 2 * torch.finfo(torch.float32).eps
    x, w = torch.rand(20000, 2, generator=generator) + 0.5, torch.ones(2)
    rstd = torch.ones(20000)
    _, d_w = ascendc_norm.fused_add_rms_norm_backward(x, torch.zeros_like(x), x, w, rstd, 0.0, "gemma")
    exact = x.double().square().sum(0)
    assert ((d_w.double() - exact).abs() / exact).max().item() < 32 * torch.finfo(torch.float32).eps
