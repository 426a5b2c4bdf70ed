"""What holds between the ranks of one job; every function is called by all of them. See :func:`run_all`."""

from __future__ import annotations

import ctypes
import traceback
from pathlib import Path

import numpy as np

from tests.emulators.hccl.device import (
    DTYPES,
    OPS,
    SUM,
    Buffer,
    Comm,
    HcclError,
    call,
    counts,
    got,
    hccl,
    n,
    set_device,
)
from tests.emulators.hccl.movements import MOVEMENTS
from tests.emulators.hccl.reductions import REDUCTIONS
from tests.emulators.hccl.values import expected, refused, same, value, values


def several_at_a_time(comm: Comm, where: Path) -> None:
    others = [Comm.join(where, f"several{i}", comm.rank, comm.size) for i in range(3)]
    data = [Buffer(value(comm.rank, 50_001, "float32", i)) for i in range(3)]
    for other, one in zip(others, data):
        other.post("HcclAllReduce", one, one, n(50_001), DTYPES["float32"][0], SUM)
    for i, (other, one) in enumerate(zip(others, data)):
        other.wait()
        same(got(one), expected(values(comm, 50_001, "float32", i), "float32", "sum"))
        other.close()
    refused(1, "not a live communicator", lambda: call(hccl.HcclCommDestroy, others[0].handle))


def subgroups_in_another_order(comm: Comm, where: Path) -> None:
    members = [rank for rank in range(comm.size) if rank != 1][::-1]  # rank 1 stays out, the last comes first
    if comm.rank in members:
        sub = Comm.join(where, "sub", members.index(comm.rank), len(members))
        data = Buffer(np.array([comm.rank], np.int32))
        receive = Buffer(np.zeros(len(members), np.int32))
        sub.run("HcclAllGather", data, receive, n(1), DTYPES["int32"][0])
        assert got(receive, data)[0].tolist() == members
        sub.close()


def it_knows_itself(comm: Comm, where: Path) -> None:
    number, name = ctypes.c_uint32(), ctypes.create_string_buffer(128)
    call(hccl.HcclGetRankSize, comm.handle, ctypes.byref(number))
    assert number.value == comm.size
    call(hccl.HcclGetRankId, comm.handle, ctypes.byref(number))
    assert number.value == comm.rank
    call(hccl.HcclGetCommName, comm.handle, name)
    send = Buffer(np.frombuffer(name.value, np.uint8))
    receive = Buffer(np.zeros(len(name.value) * comm.size, np.uint8))
    comm.run("HcclAllGather", send, receive, n(len(name.value)), DTYPES["uint8"][0])
    assert got(receive, send)[0].tobytes() == name.value * comm.size
    assert comm.async_error() == 0
    assert hccl.HcclGetErrorString(9) == b"timeout"


# -- what is refused
def documented_limits(comm: Comm, where: Path) -> None:
    """Of A2 and A3: the calls return HCCL_E_NOT_SUPPORT (5), HCCL_E_PARA (1), HCCL_E_PTR (2)."""
    data = Buffer(np.zeros(64, np.float64))
    for name in ("HcclAllReduce", "HcclReduceScatter"):
        for dtype in ("float64", "uint8", "uint16", "uint32", "uint64"):
            text = f"does not reduce {dtype} on Atlas A2"
            refused(5, text, lambda n_=name, d=dtype: comm.post(n_, data, data, n(1), DTYPES[d][0], SUM))
        for dtype in ("int16", "bfloat16"):
            text = f"does not take prod of {dtype}"
            refused(
                5, text, lambda n_=name, d=dtype: comm.post(n_, data, data, n(1), DTYPES[d][0], OPS["prod"])
            )
        refused(5, "not sum, prod, max or min", lambda n_=name: comm.post(n_, data, data, n(1), 4, 4))
    refused(5, "does not reduce", lambda: comm.post("HcclReduce", data, data, n(1), 10, SUM, 0))
    refused(5, "does not take", lambda: comm.post("HcclBroadcast", data, n(1), 15, 0))
    host = ctypes.create_string_buffer(64)
    refused(1, "host memory", lambda: comm.post("HcclBroadcast", host, n(8), 4, 0))
    refused(1, "past the end", lambda: comm.post("HcclBroadcast", data, n(1 << 30), 4, 0))
    refused(2, "null", lambda: comm.post("HcclBroadcast", ctypes.c_void_p(), n(1), 4, 0))
    refused(1, "root 9", lambda: comm.post("HcclBroadcast", data, n(1), 4, 9))
    refused(1, "peer 9", lambda: comm.post("HcclSend", data, n(1), 4, 9))
    odd = ctypes.c_void_p(data.at.value + 2)
    refused(1, "not aligned", lambda: comm.post("HcclBroadcast", odd, n(1), 4, 0))
    sizes = counts([1] * comm.size)
    same_memory = (data, sizes, sizes, 4, data, sizes, sizes, 4)
    refused(1, "same memory", lambda: comm.post("HcclAlltoAllV", *same_memory))
    refused(5, "one-sided", lambda: call(hccl.HcclCommRegister, comm.handle, data.at, n(8), None, 0))
    data.free()
    comm.run("HcclBarrier")  # and none of that left the ranks out of step


def mismatches_name_both_sides(comm: Comm, where: Path) -> None:
    """Every rank gets the same error from its stream, and the communicator goes on."""
    first, f32, i32 = comm.rank == 0, DTYPES["float32"][0], DTYPES["int32"][0]
    a, b = Buffer(np.zeros(64, np.float32)), Buffer(np.zeros(64 * comm.size, np.float32))
    zeros = [0] * comm.size
    cases: list[tuple[tuple, tuple, tuple[str, ...]]] = [
        (("HcclAllReduce", a, a, n(5), f32, SUM), ("HcclAllReduce", a, a, n(3), f32, SUM), ("float32[5]", "[3]")),
        (("HcclAllReduce", a, a, n(5), f32, SUM), ("HcclAllReduce", a, a, n(5), i32, SUM), ("float32[5]", "int32[5]")),
        (("HcclAllReduce", a, a, n(5), f32, SUM), ("HcclAllReduce", a, a, n(5), f32, 2), ("sum of", "max of")),
        (("HcclBroadcast", a, n(5), f32, 0), ("HcclBroadcast", a, n(5), f32, 1), ("root 0", "root 1")),
        (("HcclBroadcast", a, n(5), f32, 0), ("HcclAllGather", a, b, n(5), f32), ("HcclBroadcast", "HcclAllGather")),
        (("HcclBarrier",), ("HcclAllReduce", a, a, n(5), f32, SUM), ("HcclBarrier", "HcclAllReduce")),
        (
            ("HcclAlltoAllV", a, counts([1] * comm.size), counts(zeros), f32, b, counts(zeros), counts(zeros), f32),
            ("HcclAlltoAllV", a, counts(zeros), counts(zeros), f32, b, counts(zeros), counts(zeros), f32),
            ("rank 0 sends 1 elements to rank 0, which expects 0",),
        ),
    ]  # fmt: skip
    for zero, others, texts in cases:
        comm.post(*(zero if first else others))
        try:
            comm.wait()
        except HcclError as error:
            assert error.code == 107000 and all(t in str(error) for t in texts), error
            assert "rank 0 " in str(error) and "rank 1 " in str(error)
        else:
            raise AssertionError(f"{zero} met {others}")
    if comm.rank < 2:
        verb = ("HcclSend", a, n(3), f32, 1) if first else ("HcclRecv", a, n(4), f32, 0)
        refused(
            107000, "rank 0 sends float32[3] to rank 1, which receives float32[4]", lambda: comm.run(*verb)
        )
        verb = ("HcclSend", a, n(3), f32, 1) if first else ("HcclRecv", a, n(3), f32, 0)
        comm.run(*verb)
    assert comm.async_error() == 0
    got(a, b)
    same(comm.all_reduce(np.ones(3, np.float32), "float32"), np.full(3, comm.size, np.float32))


CHECKS = (
    *REDUCTIONS,
    *MOVEMENTS,
    several_at_a_time,
    subgroups_in_another_order,
    it_knows_itself,
    documented_limits,
    mismatches_name_both_sides,
)


def run_all(where: Path, rank: int, size: int) -> dict[str, str]:
    """Every check, with what it raised or an empty text. Stops at the first that fails."""
    set_device(rank)
    comm = Comm.join(where, "world", rank, size)
    said = {}
    for check in CHECKS:
        said[check.__name__] = ""
        try:
            check(comm, where)
        except BaseException:  # noqa: BLE001 - the test shows it
            said[check.__name__] = traceback.format_exc()
            break
    comm.close()
    return said
