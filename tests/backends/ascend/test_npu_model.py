"""The vendor's operators as modelled from its documents, called by our wrappers: right in both directions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from hetero.accelerator import device
from hetero.backends.ascend import vendor
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
        assert {c.status for c in found} == {"skip"}
        return
    directions = {"forward", "backward"} if impl.backward else {"forward"}
    assert {c.direction for c in found} == directions
    assert [c for c in found if c.failed] == []


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("npu_such", "this torch_npu has no npu_such"),
        ("npu_one", "npu_one of this torch_npu has no argument sink"),
    ],
)
def test_what_is_installed_is_asked_of_schemas(name, lacking, monkeypatch):
    schema = SimpleNamespace(arguments=[SimpleNamespace(name="query"), SimpleNamespace(name="scale")])
    there = SimpleNamespace(npu_one=SimpleNamespace(default=SimpleNamespace(_schema=schema)))
    monkeypatch.setattr(vendor, "torch", SimpleNamespace(ops=SimpleNamespace(npu=there)))
    vendor.lacks.cache_clear()
    assert vendor.has(name, "scale", "sink")() == lacking
    assert vendor.has("npu_one", "scale")() is None
    vendor.lacks.cache_clear()
