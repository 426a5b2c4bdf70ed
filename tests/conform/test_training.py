"""Level 4: a curve within rounding passes; one that parts fails with its step."""

from __future__ import annotations

import pytest

import hetero
from hetero.conform import training
from hetero.conform.case import Case

CASE = Case("sft", "trainer", "training", "float32", "2 steps")
RIGHT = [{"loss": 6.0, "grad_norm": 3.0}, {"loss": 5.0, "grad_norm": 2.0}]


@pytest.mark.parametrize(("factor", "status"), [(1 + 1e-7, "pass"), (1.001, "fail"), (float("nan"), "fail")])
def test_how_far_a_curve_may_part(factor, status):
    got = [RIGHT[0], {**RIGHT[1], "loss": 5.0 * factor}]
    case = training.compare(CASE, RIGHT, [RIGHT], got)
    assert case.status == status and (status == "pass" or "step 2: loss" in case.problem)


def test_sft_and_grpo_on_the_cpu():
    found = training.run(hetero.device("cpu"), ["sft", "grpo"], steps=2)
    assert [(c.op, c.status, c.problem) for c in found] == [("sft", "pass", ""), ("grpo", "pass", "")]
