"""Shared by the tests of the definitions."""

from __future__ import annotations

import torch


def randn(*shape, generator, dtype=torch.float64, grad=False, scale=1.0):
    x = (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype)
    return x.requires_grad_(grad)


def close(a, b, **kw):
    torch.testing.assert_close(a, b, check_dtype=False, **kw)
