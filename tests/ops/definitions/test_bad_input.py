"""What no implementation can make sense of is named."""

from __future__ import annotations

import pytest
import torch

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


def test_differentiating_twice_is_refused():
    x = torch.randn(3, 4, requires_grad=True)
    (g,) = torch.autograd.grad(ops.rms_norm(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()
