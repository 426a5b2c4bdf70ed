"""Loading the kernels, choosing a build, and what they were built from."""

from __future__ import annotations

import hashlib
import importlib
import warnings
from pathlib import Path
from types import ModuleType

import pytest
import torch

from hetero.backends.cpu import isa as isa_module
from hetero.backends.cpu import native, ops
from hetero.errors import BackendError
from hetero.ops import registry

SOURCES = Path(__file__).parents[3] / "kernels_cpu"


def test_default_build_is_the_best_that_runs(kernels: ModuleType) -> None:
    available = kernels.available_isas()
    assert kernels.isa() in available
    assert "generic" in available
    assert available[0] != "avx2_wide"


def test_unknown_build_is_refused(kernels: ModuleType) -> None:
    before = kernels.isa()
    with pytest.raises(ValueError, match="sve9000"):
        kernels.set_isa("sve9000")
    assert kernels.isa() == before


@pytest.mark.skipif(not SOURCES.is_dir(), reason="not a checkout")
def test_built_from_these_sources(kernels: ModuleType) -> None:
    """A checkout whose kernels are older than their sources is reported here: run pip install -e . again."""
    files = [f for d in ("src", "include") for s in ("*.cpp", "*.hpp", "*.h") for f in (SOURCES / d).glob(s)]
    sums = "".join(hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(files, key=str))
    assert kernels.source_hash() == hashlib.sha256(sums.encode()).hexdigest()


def test_environment_chooses_the_build(kernels: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernels.isa()
    monkeypatch.setenv("HETERO_CPU_ISA", "generic")
    native.load.cache_clear()
    try:
        assert native.kernels().isa() == "generic"
    finally:
        native.load.cache_clear()
        kernels.set_isa(before)


def test_a_level_that_was_not_built_is_named(kernels: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa_module, "detect", lambda: "sve2")
    native.load.cache_clear()
    try:
        with pytest.raises(BackendError, match="nothing built for sve2.*generic"):
            native.load()
    finally:
        native.load.cache_clear()


#: Implemented over torch's own kernels, so there without ours.
OVER_TORCH = {"attention", "attention_varlen"}


def test_without_the_module_one_warning_and_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ModuleType:
        raise ImportError(f"No module named {name!r}")

    native.load.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    try:
        with pytest.warns(RuntimeWarning, match=r"C\+\+17 compiler"):
            assert {i.op for i in ops.impls()} == OVER_TORCH
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert {i.op for i in ops.impls()} == OVER_TORCH
        with pytest.raises(ImportError, match="not built"):
            native.kernels()
    finally:
        native.load.cache_clear()


#: Plain torch on the CPU: products that torch's own libraries are best at, and moves of memory.
PLAIN = {"grouped_matmul", "moe_permute", "moe_unpermute"}


def test_every_op_is_implemented_and_loads(kernels: ModuleType) -> None:
    impls = {i.op: i for i in ops.impls()}
    assert set(impls) == set(registry.ops()) - PLAIN
    for impl in impls.values():
        assert callable(impl.load("forward"))
        if registry.op(impl.op).backward is not None:
            assert callable(impl.load("backward"))


def test_wrong_lists_are_refused(kernels: ModuleType) -> None:
    t = torch.zeros(4)
    with pytest.raises(ValueError, match="differ in length"):
        kernels.clip([4], [t.data_ptr()], [], 1.0, torch.empty(()).data_ptr(), 1)
