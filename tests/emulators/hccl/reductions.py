"""Reductions; every function is called by all ranks of a job."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from tests.emulators.hccl.device import (
    DTYPES,
    OPS,
    SUM,
    Buffer,
    Comm,
    counts,
    from_bfloat16,
    got,
    n,
    to_bfloat16,
)
from tests.emulators.hccl.values import REDUCIBLE, REFUSED, SIZES, expected, same, values


def all_reduce(comm: Comm, where: Path) -> None:
    for dtype in REDUCIBLE:
        for op in OPS:
            if (dtype, op) in REFUSED:
                continue
            for size in SIZES if dtype in ("float32", "bfloat16") and op == "sum" else (7, 9001):
                parts = values(comm, size, dtype)
                same(comm.all_reduce(parts[comm.rank], dtype, OPS[op]), expected(parts, dtype, op))


def all_reduce_out_of_place(comm: Comm, where: Path) -> None:
    parts = values(comm, 5000, "float32")
    send, receive = Buffer(parts[comm.rank]), Buffer(np.zeros(5000, np.float32))
    comm.run("HcclAllReduce", send, receive, n(5000), DTYPES["float32"][0], SUM)
    kept, reduced = got(send, receive)
    same(kept, parts[comm.rank])
    same(reduced, expected(parts, "float32", "sum"))


def halves_round_once(comm: Comm, where: Path) -> None:
    # 2048 + 1 and 256 + 1 round back in float16 and bfloat16: a sum rounded at every rank would lose the ones.
    first = comm.rank == 0
    half = comm.all_reduce(np.array([2048 if first else 1], np.float16), "float16")
    same(half, np.array([2048 + comm.size - 1], np.float32).astype(np.float16))
    brain = comm.all_reduce(to_bfloat16(np.array([256 if first else 1])), "bfloat16")
    same(brain, to_bfloat16(np.array([256 + comm.size - 1])))


def every_half_survives(comm: Comm, where: Path) -> None:
    # Rank 0 gives each pattern, the others zero: what comes back is what float16 and bfloat16 round it to.
    patterns = np.arange(1 << 16, dtype=np.uint16)
    zeros = np.zeros(1 << 16, np.uint16)
    give = patterns if comm.rank == 0 else zeros
    half = comm.all_reduce(give.view(np.float16), "float16", SUM)
    brain = comm.all_reduce(give, "bfloat16", SUM)
    for ours, sane, floats in (
        (half.view(np.uint16), half, patterns.view(np.float16)),
        (brain, from_bfloat16(brain), from_bfloat16(patterns)),
    ):
        nan = np.isnan(floats)
        assert (np.isnan(sane) == nan).all()
        kept = ~nan & (patterns != 0x8000)  # -0 + 0 is 0
        same(ours[kept], patterns[kept])


def nans_and_infinities(comm: Comm, where: Path) -> None:
    last = comm.rank == comm.size - 1
    mine = np.array([np.nan if last else 1.0, np.inf, -np.inf if last else np.inf], np.float32)
    for op in ("max", "min"):
        reduced = comm.all_reduce(mine, "float32", OPS[op])
        assert np.isnan(reduced[0]) and reduced[1] == np.inf
        assert reduced[2] == (np.inf if op == "max" else -np.inf) or comm.size == 1
    same(comm.all_reduce(np.array([100], np.int8), "int8"), np.array([100 * comm.size]).astype(np.int8))


def reduce_to_each_root(comm: Comm, where: Path) -> None:
    for root in range(comm.size):
        for size in (0, 7, 300_001):
            parts = values(comm, size, "float32", root)
            send, receive = Buffer(parts[comm.rank]), Buffer(np.zeros(size, np.float32))
            comm.run("HcclReduce", send, receive, n(size), DTYPES["float32"][0], OPS["max"], root)
            kept, reduced = got(send, receive)
            same(kept, parts[comm.rank])
            want = expected(parts, "float32", "max") if comm.rank == root else np.zeros(size, np.float32)
            same(reduced, want)


def reduce_scatter(comm: Comm, where: Path) -> None:
    for dtype, op in (("float32", "sum"), ("bfloat16", "sum"), ("int64", "min"), ("float16", "prod")):
        for size in (0, 1, 1027, 400_003) if dtype == "float32" else (1027,):
            parts = values(comm, size * comm.size, dtype)
            want = expected(parts, dtype, op)[comm.rank * size : (comm.rank + 1) * size]
            send, receive = Buffer(parts[comm.rank]), Buffer(np.zeros(size, parts[0].dtype))
            comm.run("HcclReduceScatter", send, receive, n(size), DTYPES[dtype][0], OPS[op])
            same(got(send, receive)[1], want)


def reduce_scatter_in_place(comm: Comm, where: Path) -> None:
    size = 300_000
    parts = values(comm, size * comm.size, "float32")
    data = Buffer(parts[comm.rank])
    own = ctypes.c_void_p(data.at.value + comm.rank * size * 4)
    comm.run("HcclReduceScatter", data, own, n(size), DTYPES["float32"][0], SUM)
    mine = slice(comm.rank * size, (comm.rank + 1) * size)
    same(got(data)[mine], expected(parts, "float32", "sum")[mine])


def reduce_scatter_v(comm: Comm, where: Path) -> None:
    sizes = [(rank * 90_001) % 400_000 for rank in range(comm.size)]  # rank 0 gets none
    offsets = [5 + sum(sizes[:rank]) for rank in range(comm.size)]
    parts = values(comm, 5 + sum(sizes), "float32")
    receive = Buffer(np.zeros(sizes[comm.rank], np.float32))
    send = Buffer(parts[comm.rank])
    args = (counts(sizes), counts(offsets), receive, n(sizes[comm.rank]), DTYPES["float32"][0])
    comm.run("HcclReduceScatterV", send, *args, SUM)
    start = offsets[comm.rank]
    same(got(receive, send)[0], expected(parts, "float32", "sum")[start : start + sizes[comm.rank]])


REDUCTIONS = (
    all_reduce,
    all_reduce_out_of_place,
    halves_round_once,
    every_half_survives,
    nans_and_infinities,
    reduce_to_each_root,
    reduce_scatter,
    reduce_scatter_in_place,
    reduce_scatter_v,
)
