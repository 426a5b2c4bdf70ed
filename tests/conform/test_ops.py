"""Levels 1 and 2: the tolerance catches wrong kernels, and what is recorded is what selection then believes."""

from __future__ import annotations

import pytest
import torch

from hetero.accelerator import device
from hetero.conform import ops as levels
from hetero.conform.case import Case
from hetero.conform.record import record
from hetero.ops import Impl, conformance, registry
from hetero.ops.definitions import rms_norm as definition

HERE = __name__
FACTOR = 1.0


def scaled_forward(*args):
    y, rstd = definition.forward(*args)
    return y * FACTOR, rstd


def wrong_dtype(*args):
    y, rstd = definition.forward(*args)
    return y.double(), rstd


def raises(*args):
    raise ValueError("no such kernel")


def not_a_number(*args):
    y, rstd = definition.forward(*args)
    return torch.full_like(y, float("nan")), rstd


def run(target, dtype=torch.float32):
    impl = Impl("rms_norm", "mine", "vendor", f"{HERE}:{target}", vendor="cpu")
    return levels.cases(registry.op("rms_norm"), impl, device("cpu"), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_reference_itself_passes(dtype, monkeypatch):
    monkeypatch.setattr(f"{HERE}.FACTOR", 1.0)
    found = run("scaled_forward", dtype)
    assert found and all(c.passed for c in found)


@pytest.mark.parametrize(("dtype", "factor"), [(torch.float32, 1 + 2e-5), (torch.bfloat16, 1.05)], ids=str)
def test_a_kernel_that_is_slightly_wrong_fails(dtype, factor, monkeypatch):
    monkeypatch.setattr(f"{HERE}.FACTOR", factor)
    failed = [c for c in run("scaled_forward", dtype) if c.failed]
    assert len(failed) > 10 and "error" in failed[0].problem and failed[0].ratio > 1


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("wrong_dtype", "expected torch.float32"),
        ("raises", "ValueError: no such kernel"),
        ("not_a_number", "not finite"),
    ],
)
def test_other_faults_are_named(target, says):
    assert any(says in c.problem for c in run(target))


def test_a_record_holds_what_passed_and_nothing_else(tmp_path):
    path = tmp_path / "records.json"
    good = Case("rms_norm", "reference", "forward", "float32", "a", 0.5)
    bad = Case("rms_norm", "reference", "forward", "bfloat16", "b", 2.0, "y: error")
    half = Case("rms_norm", "reference", "forward", "bfloat16", "c", 0.1)
    assert record([good, bad, half], device("cpu"), path) == 1
    (row,) = conformance.read(path)
    assert (row["dtype"], row["arch"], row["worst"]) == ("float32", device("cpu").arch, 0.5)
    record([good], device("cpu"), path)
    assert len(conformance.read(path)) == 1, "a second run replaces the first"


def test_the_shipped_record_is_of_the_kernels_as_they_are(monkeypatch, tmp_path):
    """After a change to kernels_cpu: `hetero conform --record --to backends/cpu/conformance.json` for each level."""
    kernels = pytest.importorskip("hetero.backends.cpu._kernels", reason="the CPU kernels were not built")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # this machine's own records do not count
    conformance.forget()
    try:
        for arch in ("avx2", "generic"):
            for name in registry.ops():
                impl = next((i for i in registry.impls(name) if i.name == "cpp"), None)
                if impl is None:  # an op that is plain torch on the CPU
                    continue
                assert impl.version == kernels.source_hash()[:12]
                for direction in ("forward", "backward"):
                    for dtype in ("float32", "bfloat16"):
                        if impl.target(direction):
                            wanted = (name, "cpp", impl.version, arch, dtype, direction)
                            assert wanted in conformance.records("cpu"), wanted
    finally:
        conformance.forget()
