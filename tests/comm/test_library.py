"""Plans for libraries of every kind, with no library at hand: they are data."""

from __future__ import annotations

import pytest
import torch

from hetero.accelerator import CommSpec, registry
from hetero.comm import CommError
from hetero.comm.library import COLLECTIVES, HOST, OPS, Library, Reduction

NARROW = Library.of(CommSpec("xccl", "XCCL", ("int8", "int32", "float32", "bfloat16"), ("gather", "isend")))


def test_gloo_sums_halves_in_float32_and_leaves_the_rest() -> None:
    assert HOST.reduction(torch.float32, "sum") == Reduction(torch.float32, "sum")
    assert HOST.reduction(torch.float32, "avg") == Reduction(torch.float32, "sum", divide=True)
    half = HOST.reduction(torch.bfloat16, "avg")
    assert (half.wire, half.op, half.divide, half.host) == (torch.float32, "sum", True, False)
    assert HOST.reduction(torch.float16, "max") == Reduction(torch.float16, "max")
    assert HOST.reduction(torch.int16, "sum").wire == torch.int32
    assert HOST.reduction(torch.float8_e5m2, "sum").wire == torch.float32


def test_a_dtype_that_a_library_lacks_is_widened_or_goes_over_the_host() -> None:
    assert NARROW.reduction(torch.bfloat16, "sum") == Reduction(torch.bfloat16, "sum")
    wide = NARROW.reduction(torch.float16, "sum")
    assert (wide.wire, wide.host, wide.why) == (
        torch.float32,
        False,
        "in float32, rounded once: XCCL does not reduce float16",
    )
    host = NARROW.reduction(torch.float64, "avg")
    assert (host.wire, host.divide, host.host) == (torch.float64, True, True)
    assert NARROW.reduction(torch.int64, "max").host


def test_a_collective_that_a_library_lacks_goes_over_the_host() -> None:
    assert NARROW.missing == {"gather", "send", "recv", "batch_p2p"}
    assert NARROW.route("gather") == (True, "over the host by gloo: XCCL is not documented to do it")
    assert NARROW.route("all_reduce") == (False, "")
    assert NARROW.explain()["gather"].startswith("over the host")
    assert NARROW.explain()["all_reduce"] == "XCCL"


def test_what_a_library_documents_for_some_calls_alone_is_made_of_others() -> None:
    picky = Library.of(
        CommSpec(
            "xccl",
            "XCCL",
            ("float32", "bfloat16"),
            reduce_except=(("product", "bfloat16"),),
            bytes_as="int8",
            by_messages=("all_to_all",),
            lists_at=(3, 5),
        )
    )
    assert picky.bytes_as == torch.int8
    assert picky.reduction(torch.bfloat16, "sum").wire == torch.bfloat16
    product = picky.reduction(torch.bfloat16, "product")
    assert (product.wire, product.host) == (torch.float32, False)
    assert product.why == "in float32, rounded once: XCCL does not reduce product of bfloat16"
    told = picky.explain(3)
    assert told["all_to_all"] == "XCCL's sends and receives: its own is not documented for bytes"
    assert told["product of bfloat16"] == product.why and "sum of bfloat16" not in told
    for name in ("all_gather", "reduce_scatter"):
        assert told[name] == "XCCL with a list of tensors: with one tensor it is not documented for 3 ranks"
        assert picky.explain(4)[name] == picky.explain()[name] == "XCCL"


def test_ascend_stays_inside_what_torch_npu_documents() -> None:
    backend = next(r.backend for r in registry.records() if r.name == "ascend")
    assert backend is not None
    library = Library.of(backend.comm())
    told = library.explain(6)
    assert "list of tensors" in told["all_gather"] and "sends and receives" in told["all_to_all"]
    assert told["sum of float64"].startswith("over the host")
    assert told["sum of int8"] == "in int32: HCCL does not reduce int8"
    assert library.reduction(torch.bfloat16, "product").wire == torch.float32


@pytest.mark.parametrize(
    ("dtype", "op", "text"),
    [
        (torch.float32, "mean", "no reduction 'mean'; the ops are sum, avg, product, min, max"),
        (torch.int32, "avg", "avg of int32 would round"),
        (torch.bool, "sum", "max is 'any'"),
        (torch.uint64, "max", "XCCL cannot reduce uint64"),
    ],
)
def test_reductions_without_a_meaning_are_refused(dtype: torch.dtype, op: str, text: str) -> None:
    with pytest.raises(CommError, match=text):
        NARROW.reduction(dtype, op)


def test_every_backend_of_ours_has_a_plan_for_every_training_dtype() -> None:
    specs = [
        r.backend.comm()
        for r in registry.records()
        if r.backend is not None and r.name in ("cpu", "cuda", "ascend")
    ]
    assert len(specs) == 3
    for spec in specs:
        library = Library.of(spec)
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.uint8, torch.int64):
            for op in OPS if dtype.is_floating_point else ("sum", "max"):
                library.reduction(dtype, op)
        assert set(COLLECTIVES) <= set(library.explain())
