"""What has to hold on every rank of a communicator of any size, one rank alone included.

Each function takes the communicator; all ranks call it. The tests run them in-process for one rank and in one
spawned job for two and three.
"""

from __future__ import annotations

import dataclasses
import math
import traceback
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import hetero
from hetero.accelerator import CommSpec
from hetero.comm import CollectiveMismatch, CommError, Communicator, Recv, Send
from hetero.comm.library import Library

SHAPES = ((), (1,), (7,), (3, 5), (0,), (2, 0, 3), (1027,))
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
ANY = (*FLOATS, *INTEGERS, torch.bool, torch.complex64, torch.float8_e4m3fn)


def value(rank: int, shape: tuple[int, ...], dtype: torch.dtype, salt: int = 0) -> Tensor:
    """What ``rank`` contributes: known to every rank, so that each computes the expected result itself.

    Made on the CPU, whose numbers are the same everywhere, and moved to the default device.
    """
    g = torch.Generator("cpu").manual_seed(1000 * salt + rank)
    if dtype.is_floating_point or dtype.is_complex:
        made = torch.randn(shape, generator=g, dtype=torch.float64, device="cpu").to(dtype)
    else:
        made = torch.randint(0, 4, shape, generator=g, device="cpu").to(dtype)
    return made.to(torch.get_default_device())


def values(c: Communicator, shape: tuple[int, ...], dtype: torch.dtype, salt: int = 0) -> list[Tensor]:
    return [value(rank, shape, dtype, salt) for rank in range(c.world_size)]


def reduced(parts: list[Tensor], op: str) -> Tensor:
    """The reduction in float64 or int64, rounded once to the dtype of the parts; on the CPU."""
    whole = torch.stack([part.cpu() for part in parts])
    wide = whole.to(torch.float64 if whole.is_floating_point() else torch.int64)
    fold = {"sum": wide.sum(0), "avg": wide.sum(0) / len(parts), "product": wide.prod(0)}
    if wide.numel() or op in fold:
        fold |= {"min": wide.amin(0), "max": wide.amax(0)} if len(parts) else {}
    return fold[op].to(parts[0].dtype)


def same(got: Tensor, want: Tensor) -> None:
    """Equal but for the order of a float sum: within a few roundings of the dtype."""
    ulps = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
    tolerance = ulps.get(want.dtype, 0)
    torch.testing.assert_close(got.cpu(), want.cpu(), rtol=tolerance, atol=tolerance)


def equal(got: Tensor, want: Tensor) -> None:
    """The same bits."""
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, got.shape, want.dtype, want.shape)
    ours, theirs = (t.cpu().contiguous().view(-1).view(torch.uint8) for t in (got, want))
    assert ours.equal(theirs)


def has_float8(c: Communicator) -> bool:
    """Whether the device can convert, and copy, 8-bit floats."""
    return c.device.type == "cpu" or bool(c.device.caps.fp8_formats.usable)


# -- reductions
def all_reduce_every_dtype_op_and_shape(c: Communicator) -> None:
    for dtype in (*FLOATS, *INTEGERS):
        ops = ("sum", "product", "min", "max", *(("avg",) if dtype.is_floating_point else ()))
        for op in ops:
            shapes = (
                SHAPES if dtype in (torch.float32, torch.bfloat16) and op in ("sum", "avg") else ((3, 5),)
            )
            for shape in shapes:
                t = value(c.rank, shape, dtype)
                assert c.all_reduce(t, op) is t
                same(t, reduced(values(c, shape, dtype), op))


def all_reduce_bool_and_complex_and_float8(c: Communicator) -> None:
    bits = torch.tensor([c.rank == 0, True, False])
    equal(c.all_reduce(bits.clone(), "max"), torch.tensor([True, True, False]))
    equal(c.all_reduce(bits.clone(), "min"), torch.tensor([c.world_size == 1, True, False]))
    z = torch.tensor([1 + 2j, 3 - 1j]) * (c.rank + 1)
    total = sum(range(1, c.world_size + 1))
    equal(c.all_reduce(z.clone()), torch.tensor([1 + 2j, 3 - 1j]) * total)
    if not has_float8(c):
        return
    small = torch.tensor([0.5, 1.0]).to(torch.float8_e4m3fn)
    equal(c.all_reduce(small), torch.tensor([0.5 * c.world_size, c.world_size]).to(torch.float8_e4m3fn))


def bf16_sums_round_once(c: Communicator) -> None:
    # 256 + 1 rounds back to 256 in bf16, so rounding at every hop would lose each 1 that is added alone.
    t = torch.tensor([256.0 if c.rank == 0 else 1.0], dtype=torch.bfloat16)
    exact = torch.tensor([256.0 + c.world_size - 1]).bfloat16()
    equal(c.all_reduce(t.clone()), exact)
    equal(c.reduce_scatter([t.clone()] * c.world_size), exact)
    equal(c.all_reduce(t, "avg"), (torch.tensor([256.0 + c.world_size - 1]) / c.world_size).bfloat16())


def reductions_repeat_bit_for_bit(c: Communicator) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        first = c.all_reduce(value(c.rank, (1027,), dtype))
        for _ in range(3):
            equal(c.all_reduce(value(c.rank, (1027,), dtype)), first)
        for theirs in c.all_gather(first):
            equal(theirs, first)


def all_reduce_writes_through_strides(c: Communicator) -> None:
    whole = torch.zeros(4, 6)
    view = whole[:, ::2].T
    view.copy_(value(c.rank, (3, 4), torch.float32))
    c.all_reduce(view)
    same(view, reduced(values(c, (3, 4), torch.float32), "sum"))
    assert whole[:, 1::2].eq(0).all()


def gradients_are_not_recorded(c: Communicator) -> None:
    leaf = torch.ones(3, requires_grad=True)
    assert c.all_reduce(leaf) is leaf and leaf.grad_fn is None and leaf.is_leaf
    assert leaf.tolist() == [float(c.world_size)] * 3
    made = (leaf * 2).requires_grad_()
    assert all(t.grad_fn is None for t in c.all_gather(made))


def reduce_changes_only_the_root(c: Communicator) -> None:
    for op in ("sum", "avg", "max"):
        for dst in range(c.world_size):
            t = value(c.rank, (5,), torch.float32)
            c.reduce(t, dst, op)
            if c.rank == dst:
                same(t, reduced(values(c, (5,), torch.float32), op))
            else:
                equal(t, value(c.rank, (5,), torch.float32))


def reduce_scatter_both_forms(c: Communicator) -> None:
    n = c.world_size
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.int16):
        for op in ("sum", "max", *(("avg",) if dtype.is_floating_point else ())):
            parts = values(c, (n * 3, 2), dtype)
            want = reduced(parts, op)[c.rank * 3 : (c.rank + 1) * 3]
            out = torch.empty(3, 2, dtype=dtype)
            assert c.reduce_scatter_tensor(out, parts[c.rank], op) is out
            same(out, want)
            same(c.reduce_scatter(list(parts[c.rank].chunk(n)), op), want)
    equal(c.reduce_scatter([torch.empty(0)] * n), torch.empty(0))
    strided = torch.empty(2, 3).T
    c.reduce_scatter_tensor(strided, torch.ones(n * 3, 2))
    equal(strided, torch.full((3, 2), float(n)))


# -- movement
def movement_takes_every_dtype_and_shape(c: Communicator) -> None:
    for dtype in ANY if has_float8(c) else ANY[:-1]:
        for shape in SHAPES if dtype == torch.float32 else ((3, 5),):
            every = values(c, shape, dtype)
            mine = every[c.rank]
            for got, want in zip(c.all_gather(mine), every):
                equal(got, want)
            for src in range(c.world_size):
                equal(c.broadcast(mine.clone(), src), every[src])
                gathered = c.gather(mine, src)
                assert (gathered is not None) == (c.rank == src)
                for got, want in zip(gathered or [], every):
                    equal(got, want)
                out = torch.empty_like(mine)
                inputs = every if c.rank == src else None
                assert c.scatter(out, inputs, src) is out
                equal(out, mine)


def movement_takes_strided_tensors(c: Communicator) -> None:
    every = [t.T for t in values(c, (4, 3), torch.float32)]
    for got, want in zip(c.all_gather(every[c.rank]), every):
        equal(got, want)
    out = torch.zeros(c.world_size * 3, 8)[:, ::2]
    c.all_gather_into_tensor(out, every[c.rank])
    equal(out, torch.cat(every))
    conjugate = torch.tensor([1 + 2j]).conj()
    equal(c.all_gather(conjugate)[0], torch.tensor([1 - 2j]))
    target = torch.zeros(3, 8)[:, ::2]
    c.broadcast(target.copy_(every[c.rank]), 0)
    equal(target, every[0])


def all_to_all_even_and_uneven(c: Communicator) -> None:
    n = c.world_size
    for dtype in (torch.float32, torch.bfloat16, torch.int16):
        t = value(c.rank, (n * 2, 3), dtype)
        want = torch.cat([p[c.rank * 2 : c.rank * 2 + 2] for p in values(c, (n * 2, 3), dtype)])
        equal(c.all_to_all_single(torch.empty_like(t), t), want)
    # Rank i sends (i + 2 j) % 3 rows to rank j: some of them none.
    rows = [[(i + 2 * j) % 3 for j in range(n)] for i in range(n)]
    inputs = [value(i, (sum(rows[i]), 2), torch.float32) for i in range(n)]
    wants = [rows[i][c.rank] for i in range(n)]
    out = torch.empty(sum(wants), 2)
    c.all_to_all_single(out, inputs[c.rank], wants, rows[c.rank])
    equal(out, torch.cat([inputs[i].split(rows[i])[c.rank] for i in range(n)]))


def all_to_all_of_any_shapes(c: Communicator) -> None:
    def piece(src: int, dst: int) -> Tensor:
        return torch.full((src + 1, dst), float(10 * src + dst))

    got = c.all_to_all([piece(c.rank, dst) for dst in range(c.world_size)])
    for src, t in enumerate(got):
        equal(t, piece(src, c.rank))


# -- objects, groups, the rest
def objects_travel_as_json(c: Communicator) -> None:
    mine = {"rank": c.rank, "text": "中文" * c.rank, "list": [1, 2.5, None, True], "nan": math.inf}
    assert c.all_gather_object(mine) == [
        {"rank": r, "text": "中文" * r, "list": [1, 2.5, None, True], "nan": math.inf}
        for r in range(c.world_size)
    ]
    last = c.world_size - 1
    assert c.broadcast_object([c.rank] * 3000 if c.rank == last else object(), last) == [last] * 3000
    assert c.broadcast_object((1, "")) == [1, ""]
    with pytest.raises(CommError, match=r"object\['a'\]\[1\] is a Tensor"):
        c.all_gather_object({"a": [1, torch.ones(1)]})


def subgroups(c: Communicator) -> None:
    first = c.subgroup([0])
    assert (first is not None) == (c.rank == 0)
    backwards = c.subgroup(list(range(c.world_size))[::-1])
    assert (
        backwards is not None and backwards.ranks == tuple(range(c.world_size)) and backwards.rank == c.rank
    )
    if c.world_size > 2:  # global rank 2 is rank 1 of this group
        pair = c.subgroup([0, 2])
        assert (pair is None) == (c.rank == 1)
        if pair is not None:
            assert [t.item() for t in pair.all_gather(torch.tensor([c.rank]))] == [0, 2]
            assert pair.broadcast(torch.tensor([float(c.rank)]), 1).item() == 2
            assert pair.all_gather_object(c.rank) == [0, 2]
            pair.send(torch.ones(2), 1) if pair.rank == 0 else pair.recv(torch.ones(2), 0)
            with pytest.raises(CommError, match="from the communicator"):
                pair.subgroup([0])
    for by in ("host", "vendor"):
        together = c.subgroup(by=by)
        assert together is not None and together.ranks == tuple(range(c.world_size))
        together.close()
    with pytest.raises(CommError, match="closed"):
        together.barrier()
    c.barrier()


def arguments_that_cannot_work_are_refused(c: Communicator) -> None:
    n = c.world_size
    refusals: list[tuple[str, Callable[[], object]]] = [
        ("no reduction 'mean'", lambda: c.all_reduce(torch.ones(1), "mean")),
        ("avg of int64 would round", lambda: c.all_reduce(torch.ones(1, dtype=torch.int64), "avg")),
        ("sum of bool has no meaning", lambda: c.all_reduce(torch.tensor([True]))),
        ("max of complex", lambda: c.all_reduce(torch.tensor([1j]), "max")),
        ("cannot reduce uint64", lambda: c.all_reduce(torch.ones(1, dtype=torch.int64).view(torch.uint64))),
        ("t is on meta", lambda: c.all_reduce(torch.ones(1, device="meta"))),
        ("must be a tensor, got list", lambda: c.all_reduce([1.0])),
        ("sparse", lambda: c.broadcast(torch.eye(2).to_sparse())),
        (f"src={n} is not a rank", lambda: c.broadcast(torch.ones(1), n)),
        ("dst=-1 is not a rank", lambda: c.reduce(torch.ones(1), -1)),
        ("times the elements", lambda: c.all_gather_into_tensor(torch.ones(n + 1), torch.ones(1))),
        (
            "out is torch.float64",
            lambda: c.all_gather_into_tensor(torch.empty(n, dtype=torch.float64), torch.ones(1)),
        ),
        (f"list of {n} tensors", lambda: c.reduce_scatter([torch.ones(1)] * (n + 1))),
        (f"list of {n} tensors", lambda: c.all_to_all(torch.ones(n))),
        ("sum to 6 rows", lambda: c.all_to_all_single(torch.ones(6), torch.ones(6), [7] + [0] * (n - 1))),
        ("differ in shape", lambda: c.all_to_all_single(torch.ones(n, 2), torch.ones(n, 3))),
        ("cannot send to", lambda: c.send(torch.ones(1), c.rank)),
        ("either ranks or by", lambda: c.subgroup()),
        ("by is 'host' or 'vendor'", lambda: c.subgroup(by="rack")),
        ("distinct ranks", lambda: c.subgroup([0, 0])),
    ]
    for text, call in refusals:
        with pytest.raises(CommError, match=text.replace("(", r"\(")):
            call()
    c.barrier()  # and none of them left the ranks out of step


def it_says_what_it_does(c: Communicator) -> None:
    told = c.describe()
    assert told["ranks"] == list(range(c.world_size)) and told["backend"] == c.job.library.backend
    text = c.explain()
    assert "all_reduce" in text and told["backend"] in text and told["facts"][c.rank]["pid"] in text
    if c.world_size > 1:
        assert told["collectives"]["op=avg"].startswith("sum, then division")
        if told["backend"] == "gloo":
            assert told["collectives"]["sum of bfloat16"] == "in float32, rounded once"


def without_checks_results_are_the_same(c: Communicator) -> None:
    unchecked = Communicator(
        dataclasses.replace(c.job, check=False), c.ranks, c.rank, c.group, c._control_group
    )
    same(unchecked.all_reduce(torch.ones(3)), torch.full((3,), float(c.world_size)))
    unchecked.barrier()


ALONE = (
    all_reduce_every_dtype_op_and_shape,
    all_reduce_bool_and_complex_and_float8,
    bf16_sums_round_once,
    reductions_repeat_bit_for_bit,
    all_reduce_writes_through_strides,
    gradients_are_not_recorded,
    reduce_changes_only_the_root,
    reduce_scatter_both_forms,
    movement_takes_every_dtype_and_shape,
    movement_takes_strided_tensors,
    all_to_all_even_and_uneven,
    all_to_all_of_any_shapes,
    objects_travel_as_json,
    subgroups,
    arguments_that_cannot_work_are_refused,
    it_says_what_it_does,
    without_checks_results_are_the_same,
)


# -- what needs a peer
def messages_around_a_ring(c: Communicator) -> None:
    after, before = (c.rank + 1) % c.world_size, (c.rank - 1) % c.world_size
    t, got = value(c.rank, (4, 3), torch.bfloat16).T, torch.zeros(3, 8, dtype=torch.bfloat16)[:, ::2]
    if c.rank == 0:
        c.send(t, after)
        assert c.recv(got, before) is got
    else:
        c.recv(got, before)
        c.send(t, after)
    equal(got, value(before, (4, 3), torch.bfloat16).T)


def messages_in_a_batch_keep_their_order(c: Communicator) -> None:
    after, before = (c.rank + 1) % c.world_size, (c.rank - 1) % c.world_size
    sizes = (3, 0, 1000, 1)
    got = [torch.zeros(n) for n in sizes]
    sends = [Send(torch.full((n,), c.rank + i / 10), after) for i, n in enumerate(sizes)]
    c.batch_p2p([*sends, *(Recv(t, before) for t in got)])
    for i, t in enumerate(got):
        equal(t, torch.full((sizes[i],), before + i / 10))
    c.batch_p2p([])


def mismatches_name_both_sides(c: Communicator) -> None:
    first = c.rank == 0
    calls: list[tuple[str, Callable[[], object]]] = [
        (r"float32\[3\].*float32\[5\]", lambda: c.all_reduce(torch.ones(3 if first else 5))),
        (
            r"float64\[4\].*float32\[4\]",
            lambda: c.all_reduce(torch.ones(4, dtype=torch.float64 if first else None)),
        ),
        (r"op=sum.*op=max", lambda: c.all_reduce(torch.ones(4), "sum" if first else "max")),
        (r"src=0.*src=1", lambda: c.broadcast(torch.ones(4), 0 if first else 1)),
        (r"float32\[5\].*float32\[3\]", lambda: c.broadcast(torch.ones(5 if first else 3))),
        (
            r"all_reduce.*all_gather",
            lambda: c.all_reduce(torch.ones(3)) if first else c.all_gather(torch.ones(3)),
        ),
        (r"barrier.*all_reduce", lambda: c.barrier() if first else c.all_reduce(torch.ones(3))),
        (r"float32\[2\].*float32\[4\]", lambda: c.gather(torch.ones(2 if first else 4))),
        (
            r"broadcast_object.*all_gather_object",
            lambda: c.broadcast_object(1) if first else c.all_gather_object(1),
        ),
    ]
    for text, call in calls:
        with pytest.raises(CollectiveMismatch, match=rf"(?s){text}") as raised:
            call()
        assert sorted(raised.value.sides) == list(range(c.world_size))
    rows = [1] * c.world_size
    with pytest.raises(CollectiveMismatch, match=r"(?s)sends.*expects"):
        c.all_to_all_single(
            torch.ones(c.world_size + first), torch.ones(c.world_size), [1 + first, *rows[1:]], rows
        )
    if c.rank < 2:
        with pytest.raises(
            CollectiveMismatch, match=r"(?s)float32\[3\] from 0 to 1.*float32\[4\] from 0 to 1"
        ) as raised:
            c.send(torch.ones(3), 1) if first else c.recv(torch.zeros(4), 0)
        assert sorted(raised.value.sides) == [0, 1]
    same(c.all_reduce(torch.ones(2)), torch.full((2,), float(c.world_size)))  # still in step


def what_a_library_lacks_goes_over_the_host(c: Communicator) -> None:
    spec = CommSpec(
        "xccl", "XCCL", ("int32", "float32"), ("gather", "scatter", "reduce", "broadcast", "isend")
    )
    job = dataclasses.replace(c.job, library=Library.of(spec))
    poor = Communicator(job, c.ranks, c.rank, c.group, c._control_group)
    for check in (
        all_reduce_every_dtype_op_and_shape,
        reduce_changes_only_the_root,
        reduce_scatter_both_forms,
        movement_takes_strided_tensors,
        messages_around_a_ring,
        messages_in_a_batch_keep_their_order,
    ):
        check(poor)
    every = values(c, (3,), torch.float64)
    equal(poor.scatter(torch.empty(3, dtype=torch.float64), every if c.rank == 0 else None), every[c.rank])
    assert (poor.gather(every[c.rank]) is None) == (c.rank != 0)
    told = poor.describe()["collectives"]
    assert told["gather"] == "over the host by gloo: XCCL is not documented to do it"
    assert told["sum of float64"] == "over the host by gloo: XCCL does not reduce float64"


def what_a_library_lacks_is_made_of_its_other_calls(c: Communicator) -> None:
    if not c.job.library.on_host:
        return  # the device's own library is that picky, or takes less than gloo
    spec = CommSpec("gloo", "XCCL", bytes_as="int8", by_messages=("all_to_all",), lists_at=(2, 3))
    job = dataclasses.replace(c.job, library=dataclasses.replace(Library.of(spec), backend="xccl"))
    picky = Communicator(job, c.ranks, c.rank, c.group, c._control_group)
    for check in (
        reduce_changes_only_the_root,
        reduce_scatter_both_forms,
        movement_takes_every_dtype_and_shape,
        movement_takes_strided_tensors,
        all_to_all_even_and_uneven,
        all_to_all_of_any_shapes,
        messages_around_a_ring,
    ):
        check(picky)
    told = picky.describe()["collectives"]
    assert "list of tensors" in told["all_gather"] and "sends and receives" in told["all_to_all"]


def data_parallel_works_with_the_group(c: Communicator) -> None:
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1), process_group=c.group)
    x = value(c.rank, (4, 3), torch.float32)
    with c.guard("backward"):
        model(x).mean().backward()
    mean = torch.stack([t.mean(0) for t in values(c, (4, 3), torch.float32)]).mean(0)
    same(model.module.weight.grad, mean[None])
    with pytest.raises(RuntimeError, match="mat1 and mat2"), c.guard("a bug of the caller"):
        torch.ones(2, 3, device="cpu") @ torch.ones(2, 3, device="cpu")


TOGETHER = (
    *ALONE,
    messages_around_a_ring,
    messages_in_a_batch_keep_their_order,
    mismatches_name_both_sides,
    what_a_library_lacks_goes_over_the_host,
    what_a_library_lacks_is_made_of_its_other_calls,
    data_parallel_works_with_the_group,
)


def run_together(device: str | None = None) -> dict[str, str]:
    """In a spawned rank: every check, with what it raised or an empty text. Stops at the first that fails.

    On a ``device``, tensors are made there by default.
    """
    results = {}
    with hetero.comm.init(device, timeout=60) as c:
        torch.set_default_device(c.device.torch)
        for check in TOGETHER:
            results[check.__name__] = ""
            try:
                check(c)
            except BaseException:  # noqa: BLE001 - the test shows it
                results[check.__name__] = traceback.format_exc()
                break
    return results
