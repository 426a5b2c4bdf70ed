"""The vendor's operators on the emulated device: right in both directions, and chosen where they are."""

from __future__ import annotations

import pytest
import torch

from hetero import ops
from hetero.accelerator import device
from hetero.conform.ops import cases
from hetero.ops import conformance, registry

pytestmark = pytest.mark.emulated("ascend")

VENDOR = (
    "rms_norm", "fused_add_rms_norm", "rope", "swiglu", "attention", "attention_varlen", "cross_entropy", "adamw",
    "grouped_matmul", "moe_permute", "moe_unpermute",
)  # fmt: skip
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture
def npu():
    return device("ascend")


def impl(op, name="npu"):
    return next(i for i in registry.impls(op) if i.name == name)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", VENDOR)
def test_vendors_operators_conform(name, dtype, npu):
    vendors = impl(name)
    found = cases(registry.op(name), vendors, npu, dtype)
    assert any(not c.skipped for c in found) == (dtype in vendors.where.dtypes)
    assert [c for c in found if c.failed] == []


@pytest.mark.parametrize("name", registry.ops())
def test_references_run_on_the_device(name, npu):
    """What runs where nothing else applies: plain torch through the vendor's plugin."""
    reference = impl(name, "reference")
    found = [c for dtype in DTYPES[:2] for c in cases(registry.op(name), reference, npu, dtype)]
    assert found and [c for c in found if c.failed] == []


def test_the_shipped_record_is_of_what_is_there(npu, tmp_path, monkeypatch):
    """After a change: `hetero emulate ascend -- hetero conform --backend ascend --record --to
    backends/ascend/conformance.json`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # this machine's own records do not count
    conformance.forget()
    try:
        brought = [i for name in registry.ops() for i in registry.impls(name) if i.vendor == "ascend"]
        assert {i.op for i in brought if i.name == "npu"} == set(VENDOR)
        for found in brought:
            for direction in filter(found.target, ("forward", "backward")):
                for dtype in found.where.dtypes:
                    assert conformance.why_unproven(found, direction, npu, dtype) is None
    finally:
        conformance.forget()
        registry.refresh()


def test_records_of_the_emulator_prove_nothing_on_a_chip(npu, monkeypatch):
    monkeypatch.setattr(type(npu), "emulated", False)
    assert "unproven" in conformance.why_unproven(impl("rms_norm"), "forward", npu, torch.float32)


def chosen(op, *args, **options):
    return ops.explain(op, *args, **options).as_dict()["forward"]


def reason(decision, name):
    return next(v["reason"] for v in decision["trail"] if v["impl"] == name)


def heads(npu, *shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype).to(npu.torch)


def test_the_vendors_operator_is_chosen_where_it_applies(npu):
    x, weight = heads(npu, 4, 8), heads(npu, 8)
    q, k = heads(npu, 1, 4, 3, 8), heads(npu, 1, 2, 3, 8)
    assert chosen("rms_norm", x, weight)["chosen"] == "npu"
    assert chosen("swiglu", x, x)["chosen"] == "npu"
    assert chosen("attention", q, k, k, scale=1.0, causal=True)["chosen"] == "npu"


@pytest.mark.parametrize(
    ("op", "args", "options", "says"),
    [
        ("attention", [(1, 2, 3, 8)] * 3, {"scale": 1.0, "softcap": 5.0}, "no soft-capping"),
        ("attention", [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 8)], {"scale": 1.0}, "value_dim 8 > dim 4"),
        ("attention", [(1, 1, 1, 800)] * 3, {"scale": 1.0}, "last dimension 800 > 768"),
        ("attention", [(1, 512, 1, 8)] + [(1, 2, 1, 8)] * 2, {"scale": 1.0}, "heads 512 > 256"),
        ("rope", [(1, 1, 2, 896), (1, 1, 2, 896), (2, 448), (2, 448)], {}, "last dimension 896 > 894"),
        ("rope", [(1, 1, 2, 5), (1, 1, 2, 5), (2, 2), (2, 2)], {"rotary_dim": 4}, "multiple of 2"),
        ("rope", [(1000, 1, 1, 2), (1000, 1, 1, 2), (1, 1), (1, 1)], {"rotary_dim": 2}, "batch 1000 > 999"),
        ("rope", [(1, 1000, 1, 2), (1, 1, 1, 2), (1, 1), (1, 1)], {"rotary_dim": 2}, "heads 1000 > 999"),
    ],
)
def test_another_is_chosen_where_the_vendors_does_not_apply(op, args, options, says, npu):
    decision = chosen(op, *(heads(npu, *shape) for shape in args), **options)
    assert decision["chosen"] != "npu" and says in reason(decision, "npu")


@pytest.mark.parametrize(
    ("dtype", "options", "says"),
    [
        (torch.bfloat16, {}, "bfloat16 not in {float32}"),
        (torch.float32, {"label_smoothing": 0.1}, "no gradient with label_smoothing"),
        (torch.float32, {"z_loss": 0.1}, "no gradient with z_loss"),
        (torch.float32, {"softcap": 5.0}, "no gradient with softcap"),
    ],
)
def test_losses_that_the_vendors_operator_does_not_have(dtype, options, says, npu):
    decision = chosen(
        "cross_entropy", heads(npu, 3, 7, dtype=dtype), heads(npu, 3, dtype=torch.int64), **options
    )
    assert decision["chosen"] != "npu" and says in reason(decision, "npu")


@pytest.mark.parametrize(("beta2", "wanted"), [(0.999, "reference"), (0.95, "npu")])
def test_betas_that_float32_spoils(beta2, wanted, npu):
    p = [heads(npu, 3)]
    decision = chosen("adamw", p, p, p, p, lr=0.1, beta2=beta2, step=1)
    assert decision["chosen"] == wanted
    assert wanted == "npu" or "1 - beta2 is off by" in reason(decision, "npu")


def test_mixed_dtypes_of_the_weights_of_experts(npu):
    rows = torch.arange(4, dtype=torch.int32).to(npu.torch)
    decision = chosen("moe_unpermute", heads(npu, 4, 8, dtype=torch.bfloat16), rows, heads(npu, 2, 2))
    assert decision["chosen"] == "reference" and "operands of torch.bfloat16" in reason(decision, "npu")
