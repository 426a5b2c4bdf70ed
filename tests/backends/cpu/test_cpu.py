import pytest

from hetero.backends.cpu import backend, cores, isa
from hetero.backends.cpu import device as cpu_device


@pytest.mark.parametrize(
    "flags, bf16, fp16",
    [
        ("avx2 fma", "emulated", "emulated"),
        ("avx2 fma avx512f avx512_bf16", "yes", "emulated"),
        ("avx2 fma amx_bf16 avx512_fp16", "yes", "yes"),
    ],
)
def test_half_precision_is_native_only_with_units_for_it(monkeypatch, flags, bf16, fp16):
    monkeypatch.setattr(isa, "cpuinfo", lambda: f"model name : X\nflags : {flags}\n")
    caps = backend.caps(0)
    assert (caps.bf16.state, caps.fp16.state) == (bf16, fp16) and caps.bf16.usable


def test_compile_needs_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    assert backend.caps(0).compile_backend.state == "no"
    monkeypatch.setenv("CXX", "clang++")
    assert backend.caps(0).compile_backend.value == "inductor"


def test_no_peak_is_guessed():
    assert not backend.caps(0).peaks


def test_cores_and_collectives():
    assert cores() >= 1
    assert backend.comm().backend == "gloo"


def test_a_container_limit_bounds_the_memory(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text(f"{1 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{1 << 28}\n")
    monkeypatch.setattr(cpu_device, "_CGROUP", tmp_path)
    info = backend.device(0).memory()
    assert info.total == 1 << 30 and info.free <= (1 << 30) - (1 << 28)
    (tmp_path / "memory.max").write_text("max\n")
    assert backend.device(0).memory().total > 1 << 30
