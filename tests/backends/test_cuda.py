from types import SimpleNamespace

import pytest
import torch

from hetero.accelerator import Host
from hetero.backends.cuda import backend


@pytest.fixture
def gpu(monkeypatch):
    def make(name, major, minor, triton="3.4.0", **properties):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: name)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (major, minor))
        answers = SimpleNamespace(major=major, minor=minor, **properties)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: answers)
        monkeypatch.setattr(Host, "package", lambda self, module, *names: {"triton": triton}.get(module))

    return make


def test_h200(gpu):
    gpu("NVIDIA H200", 9, 0, shared_memory_per_block_optin=232448)
    assert (backend.identity(0).name, backend.identity(0).arch) == ("NVIDIA H200", "sm_90")
    caps = backend.caps(0)
    assert caps.bf16 and caps.fp8_formats.value == ("float8_e4m3fn", "float8_e5m2")
    assert caps.max_shared_bytes.value == 232448 and caps.warp.value == 32 and caps.cuda_compat.value == "9.0"
    assert caps.peak("bf16").value == 989e12 and "torchtitan" in caps.peak("bf16").source
    assert caps.peak("memory").unit == "byte/s"


def test_v100_has_no_bf16_units_and_no_fp8(gpu):
    gpu("Tesla V100-SXM2-16GB", 7, 0)
    caps = backend.caps(0)
    assert caps.bf16.state == "emulated" and caps.fp8_formats.state == "no" and not caps.bf16_atomics
    assert not caps.peaks, "another chip's peak is never used"


def test_a_chip_newer_than_the_table_promises_nothing_it_does_not_state(gpu):
    gpu("NVIDIA X1000", 21, 0)
    assert backend.caps(0).bf16.state == "unknown"


def test_without_triton_there_is_no_compile(gpu):
    gpu("NVIDIA H200", 9, 0, triton=None)
    caps = backend.caps(0)
    assert caps.triton.state == caps.compile_backend.state == "no" and "not installed" in caps.triton.why


def test_collectives():
    assert backend.comm().backend == "nccl"
