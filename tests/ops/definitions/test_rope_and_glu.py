"""Rotary positions and gated activations against independent maths."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import hetero.ops as ops
from tests.ops.definitions.helpers import close, randn


def complex_rope(x, angle):
    """Rotation as complex multiplication of interleaved pairs: [B, T, H, D] by [B, T, D/2]."""
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)[:, :, None]).flatten(-2)


@pytest.mark.parametrize("unsqueeze_dim", [1, 2])
def test_rope_interleaved_is_complex_multiplication(unsqueeze_dim, generator):
    q, k = randn(2, 7, 4, 16, generator=generator), randn(2, 7, 2, 16, generator=generator)
    positions = torch.randint(0, 50, (2, 7), generator=generator)
    frequency = 10000.0 ** (-torch.arange(8, dtype=torch.float64) / 8)
    table = torch.arange(50, dtype=torch.float64)[:, None] * frequency
    args = (q, k) if unsqueeze_dim == 2 else (q.transpose(1, 2), k.transpose(1, 2))
    out = ops.rope(
        *args,
        table.cos(),
        table.sin(),
        positions,
        interleaved=True,
        rotary_dim=16,
        unsqueeze_dim=unsqueeze_dim,
    )
    for got, x in zip(out, (q, k)):
        got = got if unsqueeze_dim == 2 else got.transpose(1, 2)
        close(got, complex_rope(x, table[positions]))


def test_rope_half_is_transformers(generator):
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = randn(2, 4, 9, 32, generator=generator), randn(2, 2, 9, 32, generator=generator)
    angle = randn(2, 9, 16, generator=generator)
    cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
    for got, want in zip(ops.rope(q, k, cos, sin), apply_rotary_pos_emb(q, k, cos, sin)):
        close(got, want)


def test_partial_rope_copies_the_rest_and_turns_back(generator):
    q, k = randn(1, 2, 5, 20, generator=generator), randn(1, 1, 5, 20, generator=generator)
    angle = randn(1, 5, 6, generator=generator)
    turned, _ = ops.rope(q, k, angle.cos(), angle.sin(), rotary_dim=12)
    assert torch.equal(turned[..., 12:], q[..., 12:])
    back, _ = ops.rope(turned, k, angle.cos(), -angle.sin(), rotary_dim=12)
    close(back, q)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_glus_are_torchs(approximate, generator):
    wide = randn(3, 2 * 21, generator=generator, scale=3.0)
    gate, up = wide.chunk(2, -1)
    close(ops.swiglu(gate, up), F.silu(gate) * up)
    close(ops.geglu(gate, up, approximate), F.gelu(gate, approximate=approximate) * up)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_glu_gradients_are_finite_for_huge_inputs(approximate):
    gate = torch.tensor([1e30, -1e30, 3e4, -3e4, 0.0], requires_grad=True)
    up = torch.ones(5, requires_grad=True)
    (ops.swiglu(gate, up) + ops.geglu(gate, up, approximate)).sum().backward()
    assert torch.isfinite(gate.grad).all()
    close(gate.grad, torch.tensor([2.0, 0.0, 2.0, 0.0, 1.0]))
