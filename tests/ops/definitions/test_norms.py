"""Normalisations against torch in float64."""

from __future__ import annotations

import torch
from torch.nn import functional as F

import hetero.ops as ops
from tests.ops.definitions.helpers import close, randn


def test_rms_norm_is_torchs(generator):
    x, w = randn(3, 5, 17, generator=generator), randn(17, generator=generator)
    close(ops.rms_norm(x, w, 1e-5), F.rms_norm(x, (17,), w, 1e-5))
    close(ops.rms_norm(x, w, 1e-5, offset=1.0, casting="gemma"), F.rms_norm(x, (17,), w + 1, 1e-5))
    close(ops.rms_norm(x, eps=1e-5), F.rms_norm(x, (17,), None, 1e-5))


def test_rms_norm_casting_rounds_where_it_says(generator):
    x = randn(4, 64, generator=generator, dtype=torch.bfloat16)
    w = randn(64, generator=generator, dtype=torch.bfloat16)
    normed = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
    with ops.use("*=reference"):
        llama, gemma = ops.rms_norm(x, w), ops.rms_norm(x, w, casting="gemma")
    assert torch.equal(llama, w * normed.bfloat16())
    assert torch.equal(gemma, (normed * w.float()).bfloat16())


def test_fused_add_rms_norm_is_add_then_norm(generator):
    x, r, w = (randn(*s, generator=generator, grad=True) for s in ((4, 33), (4, 33), (33,)))
    y, s = ops.fused_add_rms_norm(x, r, w)
    (y.sum() + (s * s).sum()).backward()
    x2, r2, w2 = (t.detach().clone().requires_grad_() for t in (x, r, w))
    s2 = x2 + r2
    (F.rms_norm(s2, (33,), w2, 1e-6).sum() + (s2 * s2).sum()).backward()
    close(s, s2)
    for a, b in ((x, x2), (r, r2), (w, w2)):
        close(a.grad, b.grad)


def test_layer_norm_is_torchs(generator):
    x, w, b = (randn(*s, generator=generator, grad=True) for s in ((2, 3, 19), (19,), (19,)))
    close(ops.layer_norm(x, w, b, 1e-5), F.layer_norm(x, (19,), w, b, 1e-5))
    ops.layer_norm(x, w, b).square().sum().backward()
    grads = [t.grad.clone() for t in (x, w, b)]
    for t in (x, w, b):
        t.grad = None
    F.layer_norm(x, (19,), w, b, 1e-5).square().sum().backward()
    for g, t in zip(grads, (x, w, b)):
        close(g, t.grad)
