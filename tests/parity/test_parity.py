"""Two runs of one recipe: the same within rounding, or the op that was planted wrong is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hetero
from hetero import parity
from hetero.errors import ParityError
from hetero.parity import report
from tests.parity.conftest import planted


@pytest.fixture(scope="module")
def right(load):
    return parity.record(load(), hetero.device("cpu"))


def test_two_implementations_agree(load, right):
    """C++ kernels beside plain torch: rounding differs in almost every result, and explains it."""
    found = parity.compare(right, parity.record(load('ops="*=reference"'), hetero.device("cpu")))
    assert found.parted == () and not any(call[3].startswith("hetero.rms") for call in found.unmatched)
    assert sum(d.drift > 0 for d in found.differences) > len(found.differences) / 2
    assert "the same within rounding" in report.text(found)


@pytest.mark.parametrize(
    ("op", "phase", "module", "named"),
    [
        ("swiglu", "forward", "model.layers.0.mlp", "hetero.swiglu"),
        ("rms_norm", "backward", "model.norm", "hetero.rms_norm_backward"),
        ("adamw", "weights", "model.embed_tokens.weight", "updated weight"),
    ],
)
def test_a_fault_of_one_per_cent_is_named(load, right, op, phase, module, named):
    with planted(op) as policy:
        wrong = parity.record(load(policy), hetero.device("cpu"), steps=2)
    first = parity.compare(right, wrong).first
    assert (first.a.step, first.a.phase, first.a.module, first.a.op) == (1, phase, module, named)
    assert first.drift == pytest.approx(0.01, rel=0.5) and first.drift > 100 * first.allowed
    for said in (report.text(parity.compare(right, wrong)), report.html([parity.compare(right, wrong)])):
        assert first.a.place() in said and "element" in said and "float32" in said


def test_adapters_and_other_algorithms(load):
    keys = ["use_peft=true", "lora_r=4", "algorithm=dpo", "dataset_name=hetero:arithmetic-pairs?rows=16"]
    cpu, used = hetero.device("cpu"), ("*", "reference")
    found = parity.compare(*(parity.record(load(*keys, f'ops="*={ops}"'), cpu, steps=1) for ops in used))
    assert found.parted == () and len(found.differences) > 500
    assert all("lora_" in d.a.module for d in found.differences if d.a.phase == "gradients")


def test_traces_survive_a_folder(right, tmp_path):
    right.save(tmp_path / "cpu")
    assert parity.Trace.load(tmp_path / "cpu") == right


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 99}'])
def test_what_is_no_trace(tmp_path, content):
    (tmp_path / "trace.json").write_text(content)
    with pytest.raises(ParityError, match="trace.json"):
        parity.Trace.load(tmp_path)


def test_traces_of_other_recipes_are_refused(right):
    other = replace(right, recipe=right.recipe | {"learning_rate": 1.0})
    with pytest.raises(ParityError, match=r"learning_rate: 0.001 and 1.0"):
        parity.compare(right, other)


def test_calls_that_only_one_device_makes_are_left_to_their_modules(right):
    less = replace(right, events=tuple(e for e in right.events if e.op != "aten.mm"))
    found = parity.compare(right, less)
    assert {call[3] for call in found.unmatched} == {"aten.mm"} and found.parted == ()
    assert "aten.mm" in report.text(found) and "aten.mm" in report.html([found])
