"""Every rule that the emulated vector core checks: a kernel that breaks it ends with an error that names it."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable

import pytest

FULL = "the unified buffer is full"
ORDER = "no order between "
RULES = {
    # queues
    "deque of nothing": "DeQue from an empty queue",
    "freed twice": "FreeTensor of a tensor that is free",
    "freed while queued": "FreeTensor of a tensor that is still queued",
    "more tensors than buffers": "AllocTensor from a queue whose buffers are all in use",
    "enqueued beyond depth": "EnQue beyond the queue's depth",
    "tensor of another queue": "a tensor of another queue",
    "used after free": "use of a LocalTensor after FreeTensor",
    "used while queued": "use of a LocalTensor between EnQue and DeQue",
    "never freed": "a tensor of a queue was not freed",
    "queue without memory": "a queue without InitBuffer",
    # unified buffer
    "unified buffer full": f"{FULL}: InitBuffer: buffer of 1 x 49152 bytes, 40704 of 188160 are left",
    "too many buffers": "more than 64 buffers in one kernel",
    "unaligned operand": "address in the unified buffer is not a multiple of 32: Adds: source",
    "past a tensor": "out of bounds of a LocalTensor: Duplicate: destination: bytes 0 to 1028 of 1024",
    "overlap in part": "source and destination overlap in part",
    # what was never written
    "lanes never written": "read of bytes that were never written: Adds: source: byte 28 of 32",
    "reduction over padding": "read of bytes that were never written: ReduceSum: source: byte 36 of 64",
    "stale buffer": "read of bytes that were never written",
    # copies
    "copy of 7 elements": "DataCopy of a size that is not a multiple of 32 bytes",
    "copy out of 7 elements": "DataCopy of a size that is not a multiple of 32 bytes",
    "4096 blocks": "blockCount above 4095",
    "block of 2 MiB": "blockLen above 2097151",
    "half an element": "blockLen is no whole number of elements",
    "padding of 36 bytes": "padding above 32 bytes",
    "padded copy to VECCALC": "DataCopyPad from global memory to VECCALC",
    "copy out from VECCALC": "DataCopyPad from VECCALC to global memory",
    "past global memory": 'read of 12 bytes, 4088 bytes into "input", which has 4096',
    "past a global tensor": "out of bounds of a GlobalTensor",
    "unnamed global memory": "outside of the global memory that the launch named",
    "write to what is read only": '0 bytes into "input", which has 4096 and is read only',
    # vector instructions
    "bfloat16 arithmetic": "vector arithmetic on bfloat16",
    "bfloat16 with CAST_NONE": "Cast between types, or with a rounding, that A2 does not have",
    "256 repeats": "more than 255 repeats",
    "mask of 65 lanes": "a mask outside of 1 to 64 lanes",
    "gather past the tensor": "out of bounds of a LocalTensor: Gather: source",
    # order
    "vector before the copy in": f"{ORDER}vector unit and what the copy in (MTE2) still writes",
    "copy out before the vector": f"{ORDER}copy out (MTE3) and what the vector unit still writes",
    "vector into a copy out": f"{ORDER}vector unit and what the copy out (MTE3) still reads",
    "scalar before the vector": f"{ORDER}scalar unit and what the vector unit still writes",
    "vector before the scalar": f"{ORDER}vector unit and what the scalar unit still writes",
    "no barrier between vectors": f"{ORDER}vector unit and what the vector unit still writes",
    "wait for nothing": "WaitFlag for an event that nothing sets",
    "flag set twice": "SetFlag twice without WaitFlag",
    "flag left set": "SetFlag without WaitFlag: ",
    "event 8": "an event id outside of 0 to 7",
    # blocks
    "blocks write the same": "one block writes what another one uses: output, byte 0",
    "a block reads what another writes": "one block writes what another one uses: output, byte 32",
}
RIGHT = {"right", "scalar round trip", "padding that was asked for"}


@pytest.mark.parametrize("kernel", RULES)
def test_broken_rule_is_named(run: Callable[..., str], kernel: str) -> None:
    said = run(kernel)
    assert said.startswith(f"{kernel}, block")
    assert RULES[kernel] in said


@pytest.mark.parametrize("kernel", sorted(RIGHT))
@pytest.mark.parametrize("blocks", [1, 3])
def test_right_kernels_pass(run: Callable[..., str], kernel: str, blocks: int) -> None:
    assert run(kernel, blocks) == ""


def test_results(run: Callable[..., str], wrong: ctypes.CDLL) -> None:
    run("right", 3)
    assert [wrong.output_at(i) for i in (0, 1, 255, 256, 1023)] == [0.0, 2.0, 510.0, 512.0, 2046.0]


def test_every_kernel_is_listed(wrong: ctypes.CDLL) -> None:
    names = itertools.takewhile(lambda n: n is not None, (wrong.kernel_name(i) for i in itertools.count()))
    assert {n.decode() for n in names} == {*RULES, *RIGHT}


def test_one_block_may_do_what_two_may_not(run: Callable[..., str]) -> None:
    assert run("blocks write the same", 1) == ""
