"""Level 3: passes on the CPU, skips what is refused, and finds a wrong result on the rank that has it."""

from __future__ import annotations

import torch

import hetero
from hetero.conform import collectives
from hetero.conform.case import Case, verdict


def test_two_ranks_on_the_cpu():
    found = collectives.run(hetero.device("cpu"), short=True)
    assert [c for c in found if c.failed] == []
    assert {c.op.split()[0].strip(",") for c in found if c.passed} >= {"all_reduce", "all_gather", "send"}
    assert next(c.skipped for c in found if (c.op, c.dtype) == ("all_reduce avg", "int64")).startswith(
        "avg of"
    )


def test_a_case_is_as_bad_as_on_its_worst_rank():
    case = Case("all_reduce sum", "gloo", "ranks", "float32", "7")
    wrong = Case("all_reduce sum", "gloo", "ranks", "float32", "7", 9.0, "error")
    (joined,) = collectives.joined([[case], [wrong]])
    assert joined.failed and joined.problem == "rank 1: error"


def test_the_bound_of_a_sum_holds_any_order_and_no_wrong_value():
    parts = [torch.randn(1000) for _ in range(4)]
    want, allowed = collectives.reduced(parts, "sum")
    assert collectives._ratio(parts[3] + parts[1] + parts[0] + parts[2], want, allowed) <= 1
    assert collectives._ratio(want * 1.0001, want, allowed) > 1


def test_skipped_is_not_passed():
    skipped = Case("a", "b", "ranks", "float32", "7", skipped="no bf16")
    assert not skipped.passed and not skipped.failed and verdict([skipped]) == "skip"
