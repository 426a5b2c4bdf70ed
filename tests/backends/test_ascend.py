import sys
from types import ModuleType, SimpleNamespace

import pytest

from hetero.backends import ascend
from hetero.backends.ascend import backend, set_defaults


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


@pytest.mark.parametrize(
    ("name", "cores"),
    [
        ("Ascend910B1", 48),
        ("Ascend910B4-1", 40),
        ("Ascend910_9391", 48),
        ("Ascend910_9372", 40),
        ("Ascend910_9363", None),
    ],
)
def test_cores_by_the_exact_soc_name(npu, name, cores):
    npu(name)
    assert backend.caps(0).cores.value == cores


def test_two_bins_of_910b4_have_different_memory_so_it_is_unknown(npu):
    npu("Ascend910B4")
    assert not backend.caps(0).peak("memory") and backend.caps(0).peak("bf16")


def test_loading_sets_what_training_needs(monkeypatch):
    monkeypatch.setattr(ascend.os, "environ", env := {})
    calls = {}
    package = ModuleType("torch_npu")
    package.npu = SimpleNamespace(
        set_compile_mode=lambda **kw: calls.update(kw), config=SimpleNamespace(allow_internal_format=True)
    )
    monkeypatch.setitem(sys.modules, "torch_npu", package)
    backend.load()
    assert calls == {"jit_compile": False} and package.npu.config.allow_internal_format is False
    assert (
        env["HCCL_CONNECT_TIMEOUT"] == "600" and env["PYTORCH_NPU_ALLOC_CONF"] == "expandable_segments:True"
    )


def test_what_the_user_has_set_is_left_alone():
    mine = {"HCCL_CONNECT_TIMEOUT": "7", "PYTORCH_NPU_ALLOC_CONF": "max_split_size_mb:64"}
    env = dict(mine)
    set_defaults(env)
    assert env == mine


def test_the_allocator_is_never_configured_under_both_names(monkeypatch):
    """torch_npu ends the process where both are set."""
    env = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}
    set_defaults(env)
    assert "PYTORCH_NPU_ALLOC_CONF" not in env
    monkeypatch.setattr(ascend.os, "environ", env)
    assert "PYTORCH_NPU_ALLOC_CONF" not in backend.launch_env()
    monkeypatch.setattr(ascend.os, "environ", {})
    assert "PYTORCH_NPU_ALLOC_CONF" in backend.launch_env()


def test_collectives():
    comm = backend.comm()
    assert comm.backend == "hccl" and "float64" not in comm.reduce_dtypes and "3, 5, 6 and 7" in comm.note
