"""torch_npu's ways to launch, and the emulator's settings, as a PyTorch program sees them."""

from __future__ import annotations

import pytest
import torch

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _compiled_before() -> None:
    if torch.accelerator.is_available():
        torch.npu.set_compile_mode(jit_compile=False)


def _chain() -> None:
    x = torch.zeros(8, device="npu")
    for _ in range(100):
        x = x + 1
    assert x.cpu().tolist() == [100.0] * 8


@pytest.mark.emulated(
    "ascend", env={"TASK_QUEUE_ENABLE": "2", "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
)
class TestSecondQueueAndExpandableSegments:
    def test_a_chain(self) -> None:
        _chain()

    def test_segments_grow_and_shrink(self) -> None:
        free = torch.npu.mem_get_info()[0]
        blocks = [torch.full((size * MIB,), size, dtype=torch.uint8, device="npu") for size in (3, 40, 1, 70)]
        assert [int(block[-1].item()) for block in blocks] == [3, 40, 1, 70]
        assert free - torch.npu.mem_get_info()[0] >= 114 * MIB
        blocks.clear()
        torch.npu.empty_cache()
        assert free - torch.npu.mem_get_info()[0] < 25 * MIB

    def test_out_of_memory(self) -> None:
        with pytest.raises(torch.OutOfMemoryError, match="NPU out of memory"):
            torch.empty(5 << 30, dtype=torch.uint8, device="npu")
        _chain()


@pytest.mark.emulated(
    "ascend", env={"ASCEND_LAUNCH_BLOCKING": "1"}, faults="op-late:aclnnAdds@3,op:aclnnMuls@2"
)
class TestBlockingLaunches:
    def test_a_failure_on_the_stream_is_raised_by_its_own_call(self) -> None:
        x = torch.zeros(8, device="npu")
        y = x + 1
        y = y + 1
        with pytest.raises(RuntimeError, match=r"aclnnAdds|507015"):
            y + 1
        _chain()

    def test_a_refused_launch_is_raised_with_its_name(self) -> None:
        x = torch.ones(8, device="npu")
        x * 2
        with pytest.raises(RuntimeError, match="aclnnMuls: injected fault"):
            x * 2
        assert (x * 2).cpu().tolist() == [2.0] * 8


@pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"}, faults="oom@2,oom@4+")
class TestAllocationsThatFail:
    def test_torch_tries_again_and_then_says_so(self) -> None:
        small = torch.ones(8, device="npu")
        torch.empty(30 * MIB, dtype=torch.uint8, device="npu")
        assert torch.npu.memory_stats()["num_alloc_retries"] == 1
        with pytest.raises(torch.OutOfMemoryError, match="NPU out of memory. Tried to allocate 62.00 MiB"):
            torch.empty(60 * MIB, dtype=torch.uint8, device="npu")
        assert small.cpu().tolist() == [1.0] * 8


@pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"}, races=1)
class TestRaces:
    def test_a_stream_that_did_not_wait(self) -> None:
        x, side = torch.zeros(1000, device="npu"), torch.npu.Stream()
        torch.npu.synchronize()
        x.fill_(1)
        with torch.npu.stream(side), pytest.raises(RuntimeError, match=r"race: aclnn\w+ on stream \d+ reads"):
            x * 2

    def test_streams_that_did(self) -> None:
        x, side = torch.zeros(1000, device="npu"), torch.npu.Stream()
        for step in range(20):
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                y = x + step
                y.record_stream(torch.npu.default_stream())
            torch.npu.current_stream().wait_stream(side)
            x = y * 1  # memory goes from stream to stream through the allocator
        assert x[0].item() == sum(range(20))

    def test_memory_reused_without_record_stream(self) -> None:
        side, main = torch.npu.Stream(), torch.npu.current_stream()
        x = torch.zeros(1 << 20, device="npu")
        side.wait_stream(main)
        with torch.npu.stream(side):
            y = x + 1  # the side stream reads x
        del x  # and the allocator gives its memory away
        with pytest.raises(RuntimeError, match="race: .* writes device memory that .* reads"):
            torch.ones(1 << 20, device="npu")
        torch.npu.synchronize()
        del y

    def test_operands_of_two_devices(self) -> None:
        """torch_npu does not look; with its queue the error would come later."""
        x, there = torch.zeros(8, device="npu:0"), torch.zeros(8, device="npu:1")
        with pytest.raises(RuntimeError, match="memory of device 1, the stream is on device 0"):
            x + there

    def test_views_that_share_memory_but_no_bytes(self) -> None:
        x, side = torch.zeros(2, 500, device="npu"), torch.npu.Stream()
        side.wait_stream(torch.npu.current_stream())
        x[0].fill_(1)
        with torch.npu.stream(side):
            x[1].fill_(2)
        torch.npu.synchronize()
        assert (x[0, 0].item(), x[1, 0].item()) == (1.0, 2.0)


@pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"}, delay=50_000)
class TestDelay:
    def test_reading_a_copy_too_early_shows(self) -> None:
        x = torch.full((8,), 3.0, device="npu")
        host = torch.zeros(8, pin_memory=True)
        host.copy_(x, non_blocking=True)
        assert host.tolist() == [0.0] * 8
        torch.npu.current_stream().synchronize()
        assert host.tolist() == [3.0] * 8


@pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"}, soc="Ascend910A")
class TestOldSoc:
    def test_no_bfloat16(self) -> None:
        assert not torch.npu.is_bf16_supported()
        x = torch.empty(8, dtype=torch.bfloat16, device="npu")
        with pytest.raises(RuntimeError, match="bfloat16 is not supported on Ascend910A"):
            x + x

    def test_float16(self) -> None:
        x = torch.ones(8, dtype=torch.float16).npu()
        assert (x + x).cpu().tolist() == [2.0] * 8
