import pytest
import torch

from hetero.accelerator import Host
from hetero.backends.metax import backend


@pytest.fixture
def card(monkeypatch):
    def make(name, capability=(8, 0), triton="3.0.0+metax", maca="/opt/maca"):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: name)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
        monkeypatch.setattr(Host, "package", lambda self, module, *names: {"triton": triton}.get(module))
        if maca:
            monkeypatch.setenv("MACA_PATH", maca)
        else:
            monkeypatch.delenv("MACA_PATH", raising=False)

    return make


@pytest.mark.parametrize(
    "name, capability, arch",
    [
        ("MetaX C500", (8, 0), "xcore1000"),
        ("MXC500", (8, 0), "xcore1000"),
        ("MetaX C550", (8, 0), "xcore1002"),
        ("Device 4000", (8, 0), "xcore1000"),  # a masked name
        ("Device 4000", (8, 6), "xcore1500"),
        ("Device 4000", (8, 9), "xcore1600"),
        ("Device 4000", (9, 9), "unknown"),
    ],
)
def test_arch_comes_from_the_name_then_the_family(card, name, capability, arch):
    card(name, capability)
    assert backend.identity(0).arch == arch


def test_what_it_is_not_although_it_says_sm_80(card):
    card("MetaX C500")
    caps = backend.caps(0)
    assert caps.warp.value == 64 and caps.max_shared_bytes.value == 65536
    assert caps.fp8_formats.state == "no" and caps.bf16_atomics.state == "no"
    assert caps.cuda_compat.value == "8.0" and caps.triton.value == "maca"
    assert not caps.peak("bf16"), "no official figure exists"


def test_only_the_c550_has_a_nominal_bandwidth(card):
    card("MetaX C550")
    assert backend.caps(0).peak("memory").value == 1.8e12
    card("MetaX C500")
    assert not backend.caps(0).peaks


def test_triton_needs_maca_path(card):
    card("MetaX C500", maca=None)
    assert "MACA_PATH must be set" in backend.caps(0).triton.why
    card("MetaX C500", triton=None)
    assert "not installed" in backend.caps(0).triton.why


def test_collectives_and_launch():
    assert backend.comm().backend == "nccl" and backend.comm().library == "MCCL"
    assert backend.launch_env()["MACA_MPS_MODE"] == "1"
