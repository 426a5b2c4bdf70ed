import sys
from types import ModuleType, SimpleNamespace

import pytest

from hetero.backends.ascend import backend


@pytest.fixture
def npu(monkeypatch):
    def make(name):
        monkeypatch.setattr(backend, "module", lambda: SimpleNamespace(get_device_name=lambda index: name))

    return make


@pytest.mark.parametrize(
    "name, arch, bf16",
    [
        ("Ascend910B", "a1", "no"),  # no digit: the old family
        ("Ascend910A", "a1", "no"),
        ("Ascend910PremiumA", "a1", "no"),
        ("Ascend910B1", "a2", "yes"),
        ("Ascend910B2C", "a2", "yes"),
        ("Ascend910B4-1", "a2", "yes"),
        ("Ascend910_9391", "a3", "yes"),
        ("Ascend950PR", "a5", "yes"),
        ("Ascend310P3", "310p", "no"),
        ("Ascend310B1", "310b", "unknown"),
        ("Ascend999", "unknown", "unknown"),
    ],
)
def test_generation_by_the_exact_soc_name(npu, name, arch, bf16):
    npu(name)
    assert backend.identity(0).arch == arch
    assert backend.caps(0).bf16.state == bf16


def test_capabilities_and_peaks_of_a_910b3(npu):
    npu("Ascend910B3")
    caps = backend.caps(0)
    assert caps.fp64.state == "no" and "float32" in caps.fp64.why
    assert caps.max_shared_bytes.value == 192 * 1024 and caps.warp.state == "no"
    assert caps.graph_capture.value == "NPUGraph"
    assert caps.peak("bf16").value == 294.9e12 and "msmodeling" in caps.peak("bf16").source
    assert caps.peak("int8").unit == "OP/s" and caps.peak("memory").value == pytest.approx(1.6 * 2**40)


def test_two_bins_of_910b4_have_different_memory_so_it_is_unknown(npu):
    npu("Ascend910B4")
    assert not backend.caps(0).peak("memory") and backend.caps(0).peak("bf16")


def test_loading_sets_what_training_needs(monkeypatch):
    calls = {}
    package = ModuleType("torch_npu")
    package.npu = SimpleNamespace(
        set_compile_mode=lambda **kw: calls.update(kw), config=SimpleNamespace(allow_internal_format=True)
    )
    monkeypatch.setitem(sys.modules, "torch_npu", package)
    backend.load()
    assert calls == {"jit_compile": False} and package.npu.config.allow_internal_format is False


def test_collectives():
    comm = backend.comm()
    assert comm.backend == "hccl" and "float64" not in comm.reduce_dtypes and "3, 5, 6 and 7" in comm.note
