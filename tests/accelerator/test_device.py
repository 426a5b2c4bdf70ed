import time

import pytest
import torch

import hetero
from hetero.accelerator import MemoryInfo


@pytest.fixture
def cpu():
    return hetero.device("cpu")


def test_identity(cpu):
    assert (cpu.vendor, cpu.type, cpu.index, str(cpu)) == ("cpu", "cpu", 0, "cpu:0")
    assert cpu.name and cpu.arch in ("avx512", "avx2", "generic")
    assert cpu == hetero.device("cpu:0") and hash(cpu) == hash(hetero.device("cpu:0")) and cpu != "cpu:0"


def test_memory_of_the_cpu_is_this_processs(cpu):
    before = cpu.memory()
    x = torch.ones(32 << 20, dtype=torch.uint8)
    after = cpu.memory()
    assert after.allocated - before.allocated > 24 << 20
    assert after.peak >= after.allocated and 0 < after.free <= after.total
    del x


def test_event_times_in_milliseconds(cpu):
    start, end = cpu.event(), cpu.event()
    start.record()
    time.sleep(0.02)
    end.record()
    assert 20 <= start.elapsed_time(end) < 2000
    with pytest.raises(ValueError, match="timing=True"):
        cpu.event(timing=False).elapsed_time(end)
    with pytest.raises(ValueError, match="recorded"):
        cpu.event().elapsed_time(end)


def test_stream_can_be_entered(cpu):
    with cpu.module.stream(cpu.stream()):
        assert (torch.ones(2) + 1).sum() == 4
    cpu.synchronize()


def test_rng_state_round_trip(cpu):
    state = cpu.rng_state()
    first = torch.rand(4)
    cpu.set_rng_state(state)
    assert torch.equal(first, torch.rand(4))


def test_trace_is_seen_by_the_profiler(cpu):
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile,
        cpu.trace("my step"),
    ):
        torch.ones(2) + 1
    assert any(event.key == "my step" for event in profile.key_averages())


def test_explain_names_the_reason_the_evidence_and_the_others(cpu):
    text = cpu.explain()
    for part in (cpu.name, "why: ", "not ascend: absent", "not cuda: ", "bf16: ", "warp: no"):
        assert part in text


def test_memory_of_an_accelerator_is_its_modules_and_unknown_stays_none(plugins, fake):
    backend = fake("acme", torch_types=("xpu",))
    plugins(backend)
    info = hetero.device("acme").memory()
    assert (info.free, info.total, info.allocated) == (3 << 30, 8 << 30, 1 << 30)
    assert isinstance(info, MemoryInfo)
    hetero.device("acme:1").synchronize()
    assert backend.fake.calls == ["synchronize xpu:1"]
