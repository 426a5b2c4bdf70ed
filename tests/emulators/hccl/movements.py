"""Collectives and messages that move bytes; every function is called by all ranks of a job."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from tests.emulators.hccl.device import DTYPES, Buffer, Comm, call, counts, got, hccl, n
from tests.emulators.hccl.values import SIZES, refused, same, value, values


def all_gather(comm: Comm, where: Path) -> None:
    for dtype in DTYPES:
        for size in SIZES if dtype == "uint8" else (5,):
            parts = values(comm, size, dtype)
            send, receive = Buffer(parts[comm.rank]), Buffer(np.zeros(size * comm.size, parts[0].dtype))
            comm.run("HcclAllGather", send, receive, n(size), DTYPES[dtype][0])
            same(got(receive, send)[0], np.concatenate(parts))


def all_gather_in_place(comm: Comm, where: Path) -> None:
    size = 400_000
    parts = values(comm, size, "float32")
    whole = np.zeros(size * comm.size, np.float32)
    whole[comm.rank * size : (comm.rank + 1) * size] = parts[comm.rank]
    data = Buffer(whole)
    own = ctypes.c_void_p(data.at.value + comm.rank * size * 4)
    comm.run("HcclAllGather", own, data, n(size), DTYPES["float32"][0])
    same(got(data), np.concatenate(parts))


def all_gather_v(comm: Comm, where: Path) -> None:
    sizes = [(rank * 300_001) % 700_000 for rank in range(comm.size)]
    offsets = [3 + sum(sizes[rank + 1 :]) for rank in range(comm.size)]  # backwards, after a gap
    parts = [value(rank, sizes[rank], "int32") for rank in range(comm.size)]
    send, receive = Buffer(parts[comm.rank]), Buffer(np.zeros(3 + sum(sizes), np.int32))
    args = (n(sizes[comm.rank]), receive, counts(sizes), counts(offsets), DTYPES["int32"][0])
    comm.run("HcclAllGatherV", send, *args)
    same(got(receive, send)[0], np.concatenate([np.zeros(3, np.int32), *parts[::-1]]))


def broadcast(comm: Comm, where: Path) -> None:
    for root in range(comm.size):
        for dtype, size in (("float64", 7), ("uint16", 0), ("bfloat16", 1_200_001)):
            parts = values(comm, size, dtype, root)
            data = Buffer(parts[comm.rank])
            comm.run("HcclBroadcast", data, n(size), DTYPES[dtype][0], root)
            same(got(data), parts[root])


def scatter(comm: Comm, where: Path) -> None:
    for root in range(comm.size):
        for size in (0, 3, 500_001):
            whole = value(root, size * comm.size, "uint8", root)
            send = Buffer(whole) if comm.rank == root else None
            receive = Buffer(np.zeros(size, np.uint8))
            comm.run("HcclScatter", send or ctypes.c_void_p(), receive, n(size), DTYPES["uint8"][0], root)
            same(got(receive), whole[comm.rank * size : (comm.rank + 1) * size])
            if send:
                send.free()


def all_to_all(comm: Comm, where: Path) -> None:
    for size in (0, 3, 700_001):
        parts = values(comm, size * comm.size, "uint8")
        send, receive = Buffer(parts[comm.rank]), Buffer(np.zeros(size * comm.size, np.uint8))
        code = DTYPES["uint8"][0]
        comm.run("HcclAlltoAll", send, n(size), code, receive, n(size), code)
        mine = slice(comm.rank * size, (comm.rank + 1) * size)
        same(got(receive, send)[0], np.concatenate([p[mine] for p in parts]))


def all_to_all_uneven(comm: Comm, where: Path) -> None:
    # Rank i sends (i + 2 j) % 3 * 123_457 elements to rank j: to some none, to some more than a slot holds.
    sizes = [[(i + 2 * j) % 3 * 123_457 for j in range(comm.size)] for i in range(comm.size)]
    parts = [value(i, sum(sizes[i]), "float32") for i in range(comm.size)]
    coming = [sizes[i][comm.rank] for i in range(comm.size)]
    starts = [[sum(row[:j]) for j in range(comm.size)] for row in sizes]
    want = [parts[i][starts[i][comm.rank] :][: coming[i]] for i in range(comm.size)]
    code = DTYPES["float32"][0]
    send, receive = Buffer(parts[comm.rank]), Buffer(np.zeros(sum(coming), np.float32))
    there = [sum(coming[:i]) for i in range(comm.size)]
    own = (counts(sizes[comm.rank]), counts(starts[comm.rank]), code)
    comm.run("HcclAlltoAllV", send, *own, receive, counts(coming), counts(there), code)
    same(receive.get(), np.concatenate(want))
    matrix = counts([size for row in sizes for size in row])
    comm.run("HcclAlltoAllVC", send, matrix, code, receive, code)
    same(got(receive, send)[0], np.concatenate(want))


def barrier(comm: Comm, where: Path) -> None:
    for _ in range(20):
        comm.run("HcclBarrier")


# -- messages
def messages_around_a_ring(comm: Comm, where: Path) -> None:
    if comm.size == 1:
        return
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for size in (0, 1, 1027, 300_001):
        send, receive = Buffer(value(comm.rank, size, "float32")), Buffer(np.zeros(size, np.float32))
        code = DTYPES["float32"][0]
        steps = [("HcclSend", send, n(size), code, after), ("HcclRecv", receive, n(size), code, before)]
        for step in steps if comm.rank == 0 else steps[::-1]:
            comm.post(*step)
        comm.wait()
        same(got(receive, send)[0], value(before, size, "float32"))


def messages_keep_their_order(comm: Comm, where: Path) -> None:
    if comm.rank > 1:
        return
    code = DTYPES["int32"][0]
    data = [Buffer(np.full(i, i, np.int32) if comm.rank == 0 else np.zeros(i, np.int32)) for i in range(9)]
    for i, one in enumerate(data):
        comm.post("HcclSend" if comm.rank == 0 else "HcclRecv", one, n(i), code, 1 - comm.rank)
    comm.wait()
    for i, one in enumerate(data):
        same(got(one), np.full(i, i, np.int32))


def a_batch_goes_both_ways(comm: Comm, where: Path) -> None:
    peers = [rank for rank in range(comm.size) if rank != comm.rank]
    sends = [[Buffer(value(comm.rank, 300_001, "float32", k)) for k in range(2)] for _ in peers]
    receives = [[Buffer(np.zeros(300_001, np.float32)) for _ in range(2)] for _ in peers]
    comm.exchange(
        [("send", b, "float32", peer) for peer, bs in zip(peers, sends) for b in bs]
        + [("recv", b, "float32", peer) for peer, bs in zip(peers, receives) for b in bs]
    )
    for peer, pair in zip(peers, receives):
        for k, data in enumerate(pair):
            same(got(data), value(peer, 300_001, "float32", k))
    for pair in sends:
        got(*pair)


def a_group_goes_both_ways(comm: Comm, where: Path) -> None:
    peers = [rank for rank in range(comm.size) if rank != comm.rank]
    code = DTYPES["float32"][0]
    send = Buffer(value(comm.rank, 100_001, "float32"))
    receives = [Buffer(np.zeros(100_001, np.float32)) for _ in peers]
    call(hccl.HcclGroupStart)
    call(hccl.HcclGroupStart)  # they nest
    for peer, receive in zip(peers, receives):
        comm.post("HcclSend", send, n(100_001), code, peer)
        comm.post("HcclRecv", receive, n(100_001), code, peer)
    call(hccl.HcclGroupEnd)
    call(hccl.HcclGroupEnd)
    comm.wait()
    for peer, receive in zip(peers, receives):
        same(got(receive), value(peer, 100_001, "float32"))
    send.free()
    refused(1, "no HcclGroupStart", lambda: call(hccl.HcclGroupEnd))


MOVEMENTS = (
    all_gather,
    all_gather_in_place,
    all_gather_v,
    broadcast,
    scatter,
    all_to_all,
    all_to_all_uneven,
    barrier,
    messages_around_a_ring,
    messages_keep_their_order,
    a_batch_goes_both_ways,
    a_group_goes_both_ways,
)
