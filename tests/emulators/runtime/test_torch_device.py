"""``torch.npu`` and ``torch.accelerator`` of the unmodified torch_npu over the emulated runtime."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.emulated("ascend", memory="1GiB", soc="Ascend910B3", devices=2)

MIB = 1 << 20


def _numbers(n: int, device: str = "npu") -> torch.Tensor:
    return torch.arange(float(n)).to(device)


@pytest.fixture(autouse=True)
def _first_device() -> None:
    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.set_device(0)
    torch.npu.empty_cache()


def test_what_the_devices_are() -> None:
    assert torch.npu.is_available() and torch.npu.device_count() == 2
    assert torch.npu.get_device_name(1) == "Ascend910B3" and torch.npu.is_bf16_supported()
    properties = torch.npu.get_device_properties(0)
    assert properties.total_memory == 1 << 30
    assert (properties.cube_core_num, properties.vector_core_num) == (20, 40)
    assert torch.npu.get_device_properties(1).uuid != properties.uuid
    assert torch.npu.utils.get_cann_version() == "9.0.0"
    assert torch.npu.utilization() == 0


def test_memory_is_counted() -> None:
    before, total = torch.npu.mem_get_info()
    torch.npu.reset_peak_memory_stats()
    start = torch.npu.memory_allocated()
    x = torch.empty(32 * MIB, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_allocated() - start >= 32 * MIB
    assert before - torch.npu.mem_get_info()[0] >= 32 * MIB and total == 1 << 30
    del x
    torch.npu.empty_cache()
    assert torch.npu.mem_get_info()[0] >= before and torch.npu.memory_allocated() == start
    assert torch.npu.max_memory_allocated() - start >= 32 * MIB
    assert torch.npu.memory_stats()["allocated_bytes.all.peak"] == torch.npu.max_memory_allocated()
    assert "NPU memory" in torch.npu.memory_summary() or torch.npu.memory_summary()
    assert isinstance(torch.npu.memory_snapshot(), list)


def test_out_of_memory_is_torchs_own_error_and_leaves_the_device_usable() -> None:
    kept = torch.ones(8, device="npu")
    with pytest.raises(
        torch.OutOfMemoryError, match=r"NPU out of memory. Tried to allocate 2.00 GiB .* 1024.00 MiB total"
    ):
        torch.empty(2 << 30, dtype=torch.uint8, device="npu")
    blocks = []
    with pytest.raises(
        torch.OutOfMemoryError, match=r"already allocated; .* free; .* reserved in total by PyTorch"
    ):
        while True:
            blocks.append(torch.empty(100 * MIB, dtype=torch.uint8, device="npu"))
    assert len(blocks) == 10
    blocks.clear()
    assert kept.cpu().tolist() == [1.0] * 8
    torch.empty(900 * MIB, dtype=torch.uint8, device="npu")


def test_streams_and_events() -> None:
    x, side = _numbers(6), torch.npu.Stream()
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    assert start.query()
    start.record()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        assert torch.npu.current_stream() == side
        y = x * 2
        end.record(side)
    y.record_stream(torch.npu.default_stream())
    torch.npu.current_stream().wait_event(end)
    assert (y + 1).cpu().tolist() == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    end.synchronize()
    assert end.query() and side.query() and 0 <= start.elapsed_time(end) < 60_000
    with pytest.raises(RuntimeError):
        torch.npu.Event(enable_timing=True).elapsed_time(end)
    high = torch.npu.Stream(priority=-1)
    assert high != side and high.device.index == 0


def test_pinned_memory_and_copies_that_do_not_wait() -> None:
    host = torch.arange(100_000.0).pin_memory()
    assert host.is_pinned() and host[10:].is_pinned() and not torch.ones(3).is_pinned()
    there = host.to("npu", non_blocking=True)
    back = torch.empty(100_000, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.npu.current_stream().synchronize()
    assert torch.equal(host, back)
    assert torch.equal(there.to("cpu", non_blocking=False), host)


def test_two_devices() -> None:
    x = _numbers(4, "npu:0")
    there = x.to("npu:1")
    assert there.device.index == 1
    y = there * 3  # on a device that is not the current one
    assert torch.npu.current_device() == 0 and y.to("npu:0").cpu().tolist() == [0.0, 3.0, 6.0, 9.0]
    with torch.npu.device(1):
        side = torch.npu.Stream()
        assert side.device.index == 1
        side.wait_stream(torch.npu.default_stream(1))
        with torch.npu.stream(side):
            z = y + 1
        side.synchronize()
    torch.npu.synchronize(1)
    assert z.cpu().tolist() == [1.0, 4.0, 7.0, 10.0]
    assert torch.npu.can_device_access_peer(0, 1)
    with pytest.raises((RuntimeError, AssertionError)):
        torch.npu.set_device(2)


def test_random_state() -> None:
    torch.npu.manual_seed_all(7)
    assert torch.npu.initial_seed() == 7
    states = torch.npu.get_rng_state_all()
    assert len(states) == 2
    torch.npu.manual_seed(8)
    assert not torch.equal(torch.npu.get_rng_state(), states[0])
    torch.npu.set_rng_state(states[0])
    assert torch.equal(torch.npu.get_rng_state(), states[0]) and torch.npu.initial_seed() == 7
    with torch.random.fork_rng([0], device_type="npu"):
        torch.npu.manual_seed(9)
    assert torch.npu.initial_seed() == 7


def test_the_accelerator_api() -> None:
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.current_accelerator() == torch.device("npu")
    assert accelerator.device_count() == 2 and accelerator.current_device_index() == 0
    accelerator.set_device_index(1)
    assert torch.npu.current_device() == 1
    accelerator.set_device_index(0)
    stream, event = torch.Stream("npu"), torch.Event("npu")
    x = _numbers(3)
    accelerator.synchronize()
    with stream:
        y = x * 2
    event.record(stream)
    event.synchronize()
    assert event.query() and y.cpu().tolist() == [0.0, 2.0, 4.0]


def test_core_limits_are_kept() -> None:
    stream = torch.npu.Stream()
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 20, "vector_core_num": 40}
    torch.npu.set_stream_limit(stream, 4, 8)
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 4, "vector_core_num": 8}
    torch.npu.reset_stream_limit(stream)
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 20, "vector_core_num": 40}


def test_determinism_can_be_asked_for() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert (torch.ones(3, device="npu") * 2).cpu().tolist() == [2.0] * 3
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_graph_is_refused_by_name_and_leaves_the_device_usable() -> None:
    x = torch.ones(3, device="npu")
    says = r"capturing a graph \(torch.npu.NPUGraph\) is not emulated"
    with pytest.raises(RuntimeError, match=says), torch.npu.graph(torch.npu.NPUGraph()):
        x * 2
    torch.npu.synchronize()
    assert (x * 2).cpu().tolist() == [2.0] * 3


def test_torchs_profiler_runs() -> None:
    with torch.profiler.profile() as profile:
        (torch.ones(3, device="npu") * 2).cpu()
    assert any("mul" in event.key for event in profile.key_averages())


def test_a_host_function_and_a_finaliser_do_not_hang() -> None:
    for _ in range(50):
        stream = torch.npu.Stream()
        with torch.npu.stream(stream):
            x = torch.ones(1000, device="npu")
            x.record_stream(torch.npu.default_stream())
        del x, stream
    torch.npu.synchronize()
