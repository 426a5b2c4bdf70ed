"""What no implementation can make sense of is named."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

import hetero.ops as ops
from hetero.errors import OpError


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: ops.rms_norm(torch.randn(2, 8), torch.randn(7)),
            r"weight has shape \(7,\), expected \(8,\)",
        ),
        (lambda: ops.rms_norm(torch.ones(2, 8, dtype=torch.int64)), "floating-point"),
        (lambda: ops.rms_norm(torch.randn(2, 8), casting="lama"), "casting='lama'"),
        (lambda: ops.fused_add_rms_norm(torch.randn(2, 8), torch.randn(2, 7)), "must agree"),
        (lambda: ops.layer_norm(torch.randn(2, 8), None, torch.randn(9)), "bias has shape"),
        (lambda: ops.swiglu(torch.randn(2, 8), torch.randn(2, 9)), "must be floating-point and agree"),
        (lambda: ops.geglu(torch.randn(2), torch.randn(2), "erf"), "approximate='erf'"),
        (lambda: ops.cross_entropy(torch.randn(2, 8), torch.tensor([1.0, 2.0])), "int64"),
        (
            lambda: ops.cross_entropy(torch.randn(2, 8), torch.tensor([1, 2]), reduction="avg"),
            "reduction='avg'",
        ),
        (
            lambda: ops.cross_entropy(torch.randn(2, 8), torch.tensor([1, 2]), label_smoothing=2),
            "label_smoothing",
        ),
        (
            lambda: ops.linear_log_prob(torch.randn(2, 8), torch.randn(3, 7), torch.tensor([1, 2])),
            "do not fit",
        ),
        (
            lambda: ops.linear_log_prob(
                torch.randn(1, 8), torch.randn(3, 8), torch.tensor([1]), temperature=0
            ),
            "temperature=0",
        ),
        (
            lambda: ops.rope(torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.ones(4), torch.ones(4)),
            "four dim",
        ),
        (
            lambda: ops.rope(
                torch.randn(1, 2, 3, 8), torch.randn(1, 2, 3, 8), torch.ones(5, 8), torch.ones(5, 8)
            ),
            "without positions",
        ),
        (lambda: ops.clip_grad_norm([torch.randn(2)], 0.0), "max_norm=0.0"),
        (
            lambda: ops.adamw(
                [torch.ones(2)], [torch.ones(3)], [torch.ones(2)], [torch.ones(2)], lr=1, step=1
            ),
            r"grads\[0\] has shape",
        ),
        (
            lambda: ops.adamw([HEAD], [HEAD], [HEAD], [HEAD], lr=1, step=1, beta2=1.0),
            "beta2=1.0 must be in",
        ),
        (
            lambda: ops.rope(
                *[torch.ones(1, 2, 3, 8, dtype=torch.int64)] * 2, torch.ones(3, 8), torch.ones(3, 8)
            ),
            "do not fit",
        ),
        (
            lambda: ops.adamw(
                [torch.ones(2)], [torch.ones(2)], [torch.ones(2)], [torch.ones(2)], lr=1, step=0
            ),
            "step=0",
        ),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(OpError, match=says):
        call()


META = torch.empty(8, device="meta")
LABELS = torch.tensor([1, 2])
HEAD = torch.randn(3, 8)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: ops.rms_norm(x, META), "weight is on meta"),
        (lambda x: ops.fused_add_rms_norm(x, x.to("meta")), "residual is on meta"),
        (lambda x: ops.fused_add_rms_norm(x, x, META), "weight is on meta"),
        (lambda x: ops.layer_norm(x, None, META), "bias is on meta"),
        (lambda x: ops.swiglu(x, x.to("meta")), "up is on meta"),
        (lambda x: ops.geglu(x, x.to("meta")), "up is on meta"),
        (lambda x: ops.cross_entropy(x, LABELS.to("meta")), "labels is on meta"),
        (lambda x: ops.fused_linear_cross_entropy(x, HEAD.to("meta"), LABELS), "weight is on meta"),
        (lambda x: ops.linear_log_prob(x, HEAD, LABELS, HEAD[:, 0].to("meta")), "bias is on meta"),
        (
            lambda x: ops.rope(x.view(1, 1, 2, 8), x.view(1, 1, 2, 8), x.to("meta"), x.to("meta")),
            "cos is on meta",
        ),
        (lambda x: ops.adamw([x], [x.to("meta")], [x], [x], lr=1, step=1), r"grads\[0\] is on meta"),
        (lambda x: ops.adamw([x], [x], [x], [x], lr=1, step=1, grad_scale=META[0]), "grad_scale is on meta"),
    ],
)
def test_operands_of_two_devices_are_named(call, says):
    with pytest.raises(OpError, match=says):
        call(torch.randn(2, 8))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bool])
def test_integers_that_kernels_read_are_int64(dtype):
    q, table = torch.randn(1, 1, 2, 8), torch.randn(4, 4)
    with pytest.raises(OpError, match="positions must be int64"):
        ops.rope(q, q, table, table, torch.tensor([0, 1]).to(dtype))
    for call in (ops.fused_linear_cross_entropy, ops.linear_log_prob):
        with pytest.raises(OpError, match="labels must be int64"):
            call(torch.randn(2, 8), HEAD, LABELS.to(dtype))
    with pytest.raises(OpError, match="labels must be int64"):
        ops.cross_entropy(torch.randn(2, 8), LABELS.to(dtype))


@pytest.mark.parametrize("scale", [torch.ones(3), torch.tensor(1.0, dtype=torch.float64)])
def test_grad_scale_is_one_float32(scale):
    x = torch.randn(2, 8)
    with pytest.raises(OpError, match="grad_scale must be a 0-dim float32"):
        ops.adamw([x], [x], [x], [x], lr=1, step=1, grad_scale=scale)


@pytest.mark.parametrize("shape", [(2, 0), (0, 8)])
def test_a_head_without_classes_or_width_is_named(shape):
    with pytest.raises(OpError, match="do not fit"):
        ops.fused_linear_cross_entropy(torch.randn(2, shape[1]), torch.randn(shape), torch.full((2,), -100))
    with pytest.raises(OpError, match="at least one"):
        ops.cross_entropy(torch.randn(2, 0), torch.full((2,), -100))


def test_gradients_may_come_from_a_generator():
    grads = [torch.full((2,), 3.0), torch.full((2,), 4.0)]
    total = ops.clip_grad_norm((g for g in grads), 1.0)
    assert float(total) == pytest.approx(50**0.5) and float(grads[0][0]) == pytest.approx(3 / 50**0.5)


def test_forward_mode_is_refused_and_not_lost():
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match="setup_context|jvp"):
        torch.func.jvp(ops.rms_norm, (x,), (x,))
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="jvp"):
            ops.rms_norm(forward_ad.make_dual(x, x))
        torch.testing.assert_close(ops.rms_norm(x), x * x.square().mean(-1, keepdim=True).add(1e-6).rsqrt())


def test_differentiating_twice_is_refused():
    x = torch.randn(3, 4, requires_grad=True)
    (g,) = torch.autograd.grad(ops.rms_norm(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()
