"""What ranks do in ``test_failures.py``. Each returns what became of it, as :func:`attempt` tells it."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.emulators.hccl.device import (
    DTYPES,
    SUM,
    Buffer,
    Comm,
    HcclError,
    acl,
    call,
    counts,
    got,
    hccl,
    n,
    root_info,
    set_device,
    shared,
)

F32 = DTYPES["float32"][0]


def attempt(run: Callable[[], Any]) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        run()
        code, text = 0, ""
    except HcclError as error:
        code, text = error.code, str(error)
    return {"code": code, "text": text, "seconds": time.monotonic() - begin}


def world(where: Path, rank: int, size: int) -> Comm:
    set_device(rank)
    comm = Comm.join(where, "world", rank, size)
    comm.all_reduce(np.ones(4, np.float32), "float32")
    return comm


def a_peer_dies(where: Path, rank: int, size: int, call_name: str) -> dict[str, Any]:
    """Rank 1 is killed by itself before the call that the others make."""
    comm = world(where, rank, size)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    data, whole = Buffer(np.ones(1000, np.float32)), Buffer(np.ones(1000 * size, np.float32))
    made = {
        "HcclAllReduce": (data, data, n(1000), F32, SUM),
        "HcclAllGather": (data, whole, n(1000), F32),
        "HcclRecv": (data, n(1000), F32, 1),
        "HcclSend": (data, n(1000), F32, 1),
        "HcclAlltoAll": (whole, n(1000), F32, Buffer(np.ones(1000 * size, np.float32)), n(1000), F32),
    }[call_name]
    told = attempt(lambda: comm.run(call_name, *made))
    return {**told, "async": comm.async_error(), "again": attempt(lambda: comm.run(call_name, *made))}


def a_peer_dies_at_work(where: Path, rank: int, size: int) -> dict[str, Any]:
    """Rank 1 is killed somewhere within large collectives."""
    comm = world(where, rank, size)
    if rank == 1:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
    data = Buffer(np.ones(2_000_003, np.float32))
    told = {"code": 0}
    while not told["code"]:
        told = attempt(lambda: comm.run("HcclAllReduce", data, data, n(2_000_003), F32, SUM))
    return told


def a_peer_leaves(where: Path, rank: int, size: int) -> dict[str, Any]:
    comm = world(where, rank, size)
    if rank == 1:
        comm.close()
        shared(where, "left", b"1")
        return {}
    shared(where, "left", None)
    return attempt(lambda: comm.all_reduce(np.ones(4, np.float32), "float32"))


def a_peer_does_something_else(where: Path, rank: int, size: int) -> dict[str, Any]:
    """Rank 1 never comes to the second all_reduce, but lives."""
    comm = world(where, rank, size)
    if rank == 1:
        shared(where, "timed out", None)
        return {"async": comm.async_error()}
    told = attempt(lambda: comm.all_reduce(np.ones(4, np.float32), "float32"))
    shared(where, "timed out", b"1")
    return {**told, "async": comm.async_error()}


def joining(where: Path, rank: int, size: int, mistake: str) -> dict[str, Any]:
    set_device(0 if mistake == "one device" else rank)
    if mistake == "a peer is absent" and rank == 1:
        return {}
    if mistake == "a peer dies" and rank == 1:
        handle = ctypes.c_void_p()
        info = shared(where, "world", None)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        call(hccl.HcclCommInitRootInfo, 3, info, 1, ctypes.byref(handle))
    info = shared(where, "world", root_info() if rank == 0 else None)
    ranks = {"a peer dies": 3, "sizes differ": 2 + rank}.get(mistake, size)
    place = 0 if mistake == "one number" else 5 if mistake == "no such rank" else rank
    handle = ctypes.c_void_p()
    told = attempt(lambda: call(hccl.HcclCommInitRootInfo, ranks, info, place, ctypes.byref(handle)))
    shared(where, f"done {rank}", b"1")
    for other in range(size if mistake not in ("a peer is absent", "a peer dies") else 0):
        shared(where, f"done {other}", None)  # a process that ends looks dead to the others
    return told


def not_a_root_info(where: Path, rank: int, size: int) -> list[dict[str, Any]]:
    set_device(0)
    handle = ctypes.c_void_p()
    junk = b"junk".ljust(4108, b"\0")
    gone = b"hetero-hccl-1 4194303 3 1234".ljust(4108, b"\0")
    tries = [(1, junk), (1, gone), (0, root_info()), (99, root_info())]

    def join(ranks: int, info: bytes) -> None:
        call(hccl.HcclCommInitRootInfo, ranks, info, 0, ctypes.byref(handle))

    return [attempt(lambda t=t: join(*t)) for t in tries]


def no_device_is_set(where: Path, rank: int, size: int) -> dict[str, Any]:
    return attempt(lambda: Comm.join(where, "world", 0, 1))


def three_all_reduces(where: Path, rank: int, size: int) -> list[dict[str, Any]]:
    set_device(rank)
    comm = Comm.join(where, "world", rank, size)

    def one() -> None:
        reduced = comm.all_reduce(np.full(4, rank + 1, np.float32), "float32")
        assert reduced.tolist() == [sum(range(1, size + 1))] * 4

    return [attempt(one) for _ in range(3)]


def both_send_first(where: Path, rank: int, size: int) -> dict[str, Any]:
    comm = world(where, rank, size)
    data = Buffer(np.ones(4, np.float32))
    comm.post("HcclSend", data, n(4), F32, (rank + 1) % size)
    comm.post("HcclRecv", data, n(4), F32, (rank - 1) % size)
    return attempt(comm.wait)


def a_stream_fails_first(where: Path, rank: int, size: int) -> dict[str, Any]:
    """On rank 0 a task before the collective fails, so the stream skips the collective."""
    comm = world(where, rank, size)
    data = Buffer(np.ones(4, np.float32))
    if rank == 0:
        other = Comm.join(where, "own", 0, 1)
        other.stream = comm.stream
        other.post("HcclBarrier")  # the fault that was asked for
    return attempt(lambda: comm.run("HcclAllReduce", data, data, n(4), F32, SUM))


def freed_too_early(where: Path, rank: int, size: int) -> dict[str, Any]:
    comm = world(where, rank, size)
    data = Buffer(np.ones(4, np.float32))
    comm.post("HcclAllReduce", data, data, n(4), F32, SUM)
    if rank == 0:
        data.free()
    return attempt(comm.wait)


def destroyed_while_waiting(where: Path, rank: int, size: int) -> dict[str, Any]:
    comm = world(where, rank, size)
    if rank == 1:
        shared(where, "destroyed", None)
        return {}
    data = Buffer(np.ones(4, np.float32))
    comm.post("HcclAllReduce", data, data, n(4), F32, SUM)
    told = attempt(lambda: call(hccl.HcclCommDestroy, comm.handle))
    shared(where, "destroyed", b"1")
    return {**told, "stream": attempt(comm.wait)}


def traces() -> list[str]:
    """What communicators of this process have open or mapped."""
    names = [" ".join(line.split()[5:]) for line in Path("/proc/self/maps").read_text().splitlines()]
    files = Path("/proc/self/fd")
    names += [os.readlink(files / fd) for fd in os.listdir(files) if (files / fd).exists()]
    return [name for name in names if "hccl" in name and ".so" not in name]


def nothing_is_left(where: Path, rank: int, size: int) -> dict[str, Any]:
    """While a communicator lives there is a mapping and no file; after it neither."""
    before = traces()
    comm = world(where, rank, size)
    during = traces()
    named = [name for name in os.listdir("/dev/shm") if "hccl" in name]
    comm.close()
    call(acl.aclrtSynchronizeDevice)
    return {"before": before, "during": during, "named": named, "after": traces()}


def subgroups(where: Path, rank: int, size: int) -> dict[str, Any]:
    comm = world(where, rank, size)

    def make(members: list[int], number: int, place: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p(123)
        ids = (ctypes.c_uint32 * len(members))(*members)
        args = (
            ctypes.byref(comm.handle),
            len(members),
            ids if members else None,
            ctypes.c_uint64(number),
            place,
        )
        call(hccl.HcclCreateSubCommConfig, *args, None, ctypes.byref(handle))
        return handle

    members = [2, 0]
    if rank in members:
        sub = Comm(make(members, 7, members.index(rank)), members.index(rank), 2)
        send, receive = Buffer(np.array([rank], np.int32)), Buffer(np.zeros(2, np.int32))
        sub.run("HcclAllGather", send, receive, n(1), DTYPES["int32"][0])
        assert got(receive).tolist() == members
        sub.close()
    else:
        assert make([], 2**32 - 1, 0).value is None
    wrong = attempt(lambda: make([0, 1, 2], 8, (rank + 1) % 3))
    again = Comm(make([0, 1, 2], 9, rank), rank, 3)
    assert again.all_reduce(np.ones(1, np.float32), "float32").tolist() == [3]
    call(hccl.HcclCommSuspend, again.handle)
    suspended = attempt(lambda: again.all_reduce(np.ones(1, np.float32), "float32"))
    call(hccl.HcclCommResume, again.handle)
    assert again.all_reduce(np.ones(1, np.float32), "float32").tolist() == [3]
    again.run("HcclBarrier")
    again.close()
    return {"wrong": wrong, "suspended": suspended}


def rank_table(where: Path, rank: int, size: int) -> list[float]:
    devices = ", ".join(f'{{"device_id": "{r}", "rank_id": "{r}"}}' for r in range(size))
    text = f'{{"server_count": "1", "server_list": [{{"server_id": "{where}", "device": [{devices}]}}]}}'
    file = where / "table.json"
    if rank == 0:
        time.sleep(0.2)  # the others have to wait for the one that tells them
    shared(where, "table.json", text.encode() if rank == 1 else None)
    set_device(rank)
    sums = []
    for _ in range(2):
        handle = ctypes.c_void_p()
        call(hccl.HcclCommInitClusterInfo, str(file).encode(), rank, ctypes.byref(handle))
        comm = Comm(handle, rank, size)
        sums += comm.all_reduce(np.full(1, rank + 1, np.float32), "float32").tolist()
        comm.close()
    return sums


def all_in_one_process(where: Path, rank: int, size: int) -> list[float]:
    handles = (ctypes.c_void_p * 2)()
    call(hccl.HcclCommInitAll, 2, (ctypes.c_int32 * 2)(0, 1), handles)
    comms, data = [], []
    for device in range(2):
        set_device(device)
        comms.append(Comm(ctypes.c_void_p(handles[device]), device, 2))
        data.append(Buffer(np.full(300_000, device + 1, np.float32)))
    for device in range(2):
        set_device(device)
        comms[device].post("HcclAllReduce", data[device], data[device], n(300_000), F32, SUM)
    sums = []
    for device in range(2):
        set_device(device)
        comms[device].wait()
        sums.append(float(data[device].get()[-1]))
    return sums


def what_the_chip_refuses(where: Path, rank: int, size: int) -> list[str]:
    set_device(0)
    comm = Comm.join(where, "world", 0, 1)
    data, other, sizes = Buffer(np.zeros(4, np.float32)), Buffer(np.zeros(4, np.float32)), counts([1])
    tries = [
        ("HcclAllReduce", data, data, n(1), DTYPES["bfloat16"][0], SUM),
        ("HcclAllReduce", data, data, n(1), DTYPES["int16"][0], SUM),
        ("HcclBroadcast", data, n(1), DTYPES["bfloat16"][0], 0),
        ("HcclReduceScatterV", data, sizes, counts([0]), other, n(1), DTYPES["int64"][0], SUM),
        ("HcclReduceScatterV", data, sizes, counts([0]), other, n(1), F32, 1),
        ("HcclAllGatherV", data, n(1), other, sizes, counts([0]), F32),
        ("HcclAlltoAllVC", data, sizes, F32, other, F32),
    ]
    return [f"{t[0]} {attempt(lambda t=t: comm.run(*t))['code']}" for t in tries]
