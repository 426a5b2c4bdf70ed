"""Every build of the kernels on every sample of every op's declaration, as `hetero conform` runs them."""

from __future__ import annotations

import os

import pytest
import torch

import hetero
from hetero.backends.cpu import ops as cpu_ops
from hetero.conform import ops as conform
from hetero.ops import registry


@pytest.mark.parametrize("op", cpu_ops._OPS)
def test_conforms(isa: str, op: str) -> None:
    (impl,) = (i for i in cpu_ops.impls() if i.op == op)
    seed = int.from_bytes(os.urandom(4), "little")
    for dtype in (torch.float32, torch.bfloat16):
        cases = conform.cases(registry.op(op), impl, hetero.device("cpu"), dtype, seed)
        assert cases
        assert [c for c in cases if c.failed] == [], f"seed {seed}"
