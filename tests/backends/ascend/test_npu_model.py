"""The vendor's operators as modelled from its documents, called by our wrappers: right in both directions."""

from __future__ import annotations

import pytest
import torch

from hetero.accelerator import device
from hetero.conform.ops import cases
from hetero.ops import registry

OPS = (
    "rms_norm", "fused_add_rms_norm", "rope", "swiglu", "attention", "attention_varlen", "cross_entropy",
    "adamw", "grouped_matmul", "moe_permute", "moe_unpermute",
)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", OPS)
def test_wrappers_conform(name, dtype, modelled):
    impl = modelled(name)
    found = cases(registry.op(name), impl, device("cpu"), dtype)
    if dtype not in impl.where.dtypes:
        assert not found
        return
    directions = {"forward", "backward"} if impl.backward else {"forward"}
    assert {c.direction for c in found} == directions
    assert [c for c in found if not c.passed] == []
