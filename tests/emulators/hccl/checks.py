"""What holds between the ranks of one job; every function is called by all of them. See :func:`run_all`."""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable
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
    from_bfloat16,
    got,
    hccl,
    n,
    set_device,
    to_bfloat16,
)

#: None; one; odd; what every rank reduces whole (16 KiB) and what they share; longer than two slots (1 MiB).
SIZES = (0, 1, 7, 1027, 4096, 4097, 600_001)
REDUCIBLE = ("int8", "int16", "int32", "int64", "float16", "float32", "bfloat16")
REFUSED = {("int16", "prod"), ("bfloat16", "prod")}


def value(rank: int, size: int, dtype: str, salt: int = 0) -> np.ndarray:
    """What ``rank`` gives, known to every rank."""
    random = np.random.default_rng([salt, rank])
    if dtype == "bfloat16":
        return to_bfloat16(random.standard_normal(size))
    kind = DTYPES[dtype][1]
    if np.issubdtype(kind, np.floating):
        return random.standard_normal(size).astype(kind)
    return random.integers(0, 100, size).astype(kind)


def expected(parts: list[np.ndarray], dtype: str, op: str) -> np.ndarray:
    """In rank order; halves in float32 and rounded once; the dtype's own wrap-around."""
    wide = [from_bfloat16(p) if dtype == "bfloat16" else p for p in parts]
    if dtype == "float16":
        wide = [p.astype(np.float32) for p in wide]
    fold = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    total = wide[0]
    with np.errstate(all="ignore"):
        for part in wide[1:]:
            total = fold(total, part)
        if dtype == "bfloat16":
            return to_bfloat16(total)
        return total.astype(parts[0].dtype)


def same(ours: np.ndarray, want: np.ndarray) -> None:
    assert ours.dtype == want.dtype and ours.shape == want.shape
    assert ours.tobytes() == want.tobytes(), (ours, want)


def values(comm: Comm, size: int, dtype: str, salt: int = 0) -> list[np.ndarray]:
    return [value(rank, size, dtype, salt) for rank in range(comm.size)]


def refused(code: int, text: str, run: Callable[[], object]) -> None:
    try:
        run()
    except HcclError as error:
        assert error.code == code and text in str(error), error
    else:
        raise AssertionError(f"nothing was raised; expected {code}: {text}")


# -- reductions
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


# -- movement
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


# -- communicators
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
        (("HcclAllReduce", a, a, n(5), f32, SUM), ("HcclAllReduce", a, a, n(3), f32, SUM), ("float32[5]", "float32[3]")),
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
    all_reduce,
    all_reduce_out_of_place,
    halves_round_once,
    every_half_survives,
    nans_and_infinities,
    reduce_to_each_root,
    reduce_scatter,
    reduce_scatter_in_place,
    reduce_scatter_v,
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
