"""What torch.distributed's ``hccl`` does on ``npu`` tensors; every function is called by all ranks.

Inputs are made on the CPU and moved, results are compared there: what is under test is torch_npu's process group over
emulated HCCL, with few other operators.
"""

from __future__ import annotations

import os
import traceback

import torch
import torch.distributed as dist
from torch import Tensor

OPS = {
    "sum": (dist.ReduceOp.SUM, lambda parts: sum(parts[1:], parts[0])),
    "max": (dist.ReduceOp.MAX, lambda parts: torch.stack(parts).amax(0)),
    "min": (dist.ReduceOp.MIN, lambda parts: torch.stack(parts).amin(0)),
    "product": (dist.ReduceOp.PRODUCT, lambda parts: torch.stack(parts).prod(0)),
    "avg": (dist.ReduceOp.AVG, lambda parts: sum(parts[1:], parts[0]) / len(parts)),
}


def value(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    g = torch.Generator().manual_seed(rank)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=g).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 5, shape, generator=g).to(dtype)


def here(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return value(rank, *shape, dtype=dtype).to("npu")


def values(n: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [value(rank, *shape, dtype=dtype) for rank in range(n)]


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="npu")


def close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got.cpu(), want)


def refused(text: str, run) -> None:
    try:
        run()
        torch.npu.synchronize()
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"nothing was raised; expected {text!r}")


def all_reduce(rank: int, n: int) -> None:
    for name, (op, fold) in OPS.items():
        t = here(rank, 3, 5)
        dist.all_reduce(t, op=op)
        close(t, fold(values(n, 3, 5))), name
    for dtype in (torch.bfloat16, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64):
        t = here(rank, 1027, dtype=dtype)
        dist.all_reduce(t)
        wide = torch.float32 if dtype.is_floating_point else dtype
        close(t, sum(p.to(wide) for p in values(n, 1027, dtype=dtype)).to(dtype))
    t = here(rank, 700_001)
    work = dist.all_reduce(t, async_op=True)
    work.wait()
    close(t, sum(values(n, 700_001)))
    t = here(rank, 0)
    dist.all_reduce(t)


def all_reduce_of_what_hccl_lacks(rank: int, n: int) -> None:
    for dtype in (torch.uint8, torch.bool):  # torch_npu takes int32 for them
        t = here(rank, 9, dtype=dtype)
        dist.all_reduce(t, op=dist.ReduceOp.MAX)
        close(t, torch.stack(values(n, 9, dtype=dtype)).to(torch.int32).amax(0).to(dtype))
    refused("Unsupported data type", lambda: dist.all_reduce(empty(3, dtype=torch.float64)))
    refused("BOR", lambda: dist.all_reduce(empty(3, dtype=torch.int32), op=dist.ReduceOp.BOR))


def broadcast(rank: int, n: int) -> None:
    for src in range(n):
        for dtype in (torch.float32, torch.bool, torch.uint8, torch.int64):
            t = here(rank, 4, 3, dtype=dtype)
            dist.broadcast(t, src)
            close(t, value(src, 4, 3, dtype=dtype))


def reduce(rank: int, n: int) -> None:
    for dst in range(n):
        t = here(rank, 5)
        dist.reduce(t, dst)
        if rank == dst:
            close(t, sum(values(n, 5)))


def all_gather(rank: int, n: int) -> None:
    outs = [empty(4, 3) for _ in range(n)]
    dist.all_gather(outs, here(rank, 4, 3))
    for got, want in zip(outs, values(n, 4, 3)):
        close(got, want)
    for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.int32, torch.bool):
        out = empty(n * 4, 3, dtype=dtype)
        dist.all_gather_into_tensor(out, here(rank, 4, 3, dtype=dtype))
        close(out, torch.cat(values(n, 4, 3, dtype=dtype)))
    outs = [empty(r + 1, 2) for r in range(n)]  # uneven: torch_npu broadcasts each on A2
    dist.all_gather(outs, here(rank, rank + 1, 2))
    for r, got in enumerate(outs):
        close(got, value(r, r + 1, 2))


def reduce_scatter(rank: int, n: int) -> None:
    for op in ("sum", "max", "avg"):
        parts = values(n, n * 3, 2)
        want = OPS[op][1](parts)[rank * 3 : rank * 3 + 3]
        out = empty(3, 2)
        dist.reduce_scatter_tensor(out, parts[rank].to("npu"), op=OPS[op][0])
        close(out, want)
        out = empty(3, 2)
        dist.reduce_scatter(out, list(parts[rank].to("npu").chunk(n)), op=OPS[op][0])
        close(out, want)


def all_to_all(rank: int, n: int) -> None:
    out = empty(n * 2, 3)
    dist.all_to_all_single(out, here(rank, n * 2, 3))
    close(out, torch.cat([p[rank * 2 : rank * 2 + 2] for p in values(n, n * 2, 3)]))
    rows = [[(i + 2 * j) % 3 for j in range(n)] for i in range(n)]  # some of them none
    coming = [rows[i][rank] for i in range(n)]
    inputs = [value(i, sum(rows[i]), 2) for i in range(n)]
    out = empty(sum(coming), 2)
    dist.all_to_all_single(out, inputs[rank].to("npu"), coming, rows[rank])
    close(out, torch.cat([inputs[i].split(rows[i])[rank] for i in range(n)]))
    outs = [empty(i + 1) for i in range(n)]
    dist.all_to_all(outs, [torch.full((rank + 1,), float(10 * rank + j)).to("npu") for j in range(n)])
    for i, got in enumerate(outs):
        close(got, torch.full((i + 1,), float(10 * i + rank)))


def gather_and_scatter(rank: int, n: int) -> None:
    outs = [empty(3) for _ in range(n)] if rank == 0 else None
    dist.gather(here(rank, 3), outs, dst=0)
    for got, want in zip(outs or [], values(n, 3)):
        close(got, want)
    for src in range(n):
        out = empty(3)
        dist.scatter(out, [t.to("npu") for t in values(n, 3)] if rank == src else None, src=src)
        close(out, value(rank, 3))


def messages(rank: int, n: int) -> None:
    after, before = (rank + 1) % n, (rank - 1) % n
    t, got = here(rank, 1027), empty(1027)
    if rank == 0:
        dist.send(t, after)
        dist.recv(got, before)
    else:
        dist.recv(got, before)
        dist.send(t, after)
    close(got, value(before, 1027))
    got = empty(1027)
    ops = [dist.P2POp(dist.isend, t, after), dist.P2POp(dist.irecv, got, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    close(got, value(before, 1027))


def objects(rank: int, n: int) -> None:
    everyone = [None] * n
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank})
    assert everyone == [{"rank": r, "text": "x" * r} for r in range(n)]
    told = [{"from": rank}]
    dist.broadcast_object_list(told, src=n - 1)
    assert told == [{"from": n - 1}]


def groups(rank: int, n: int) -> None:
    members = [0, n - 1]
    pair = dist.new_group(members)
    if rank in members:
        t = here(rank, 5)
        dist.all_reduce(t, group=pair)
        close(t, sum(value(r, 5) for r in members))
        got = empty(5)
        peer = members[1 - members.index(rank)]
        ops = [dist.P2POp(dist.isend, here(rank, 5), peer, pair), dist.P2POp(dist.irecv, got, peer, pair)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        close(got, value(peer, 5))
        dist.destroy_process_group(pair)
    dist.barrier()


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


def _train(model: torch.nn.Module, batches: list[Tensor], reduce_loss) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    losses = []
    for x in batches:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(reduce_loss(loss.detach()))
    return losses


def _data_parallel(rank: int, n: int, wrap) -> None:
    """Losses of ``n`` ranks with a part of each batch are one process's with all of it."""
    whole = [value(100 + step, n * 2, 6) for step in range(3)]
    torch.manual_seed(0)
    alone = _train(Tiny(), whole, lambda loss: loss.item())
    torch.manual_seed(0)
    model = wrap(Tiny().to("npu"))

    def mean(loss: Tensor) -> float:
        dist.all_reduce(loss)
        return loss.item() / n

    together = _train(model, [x.chunk(n)[rank].to("npu") for x in whole], mean)
    torch.testing.assert_close(torch.tensor(together), torch.tensor(alone))


def ddp(rank: int, n: int) -> None:
    _data_parallel(rank, n, lambda m: torch.nn.parallel.DistributedDataParallel(m, device_ids=[rank]))


def fsdp2(rank: int, n: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("npu", (n,))

    def wrap(model: Tiny) -> torch.nn.Module:
        for part in (model.first, model.second, model):
            fully_shard(part, mesh=mesh)
        return model

    _data_parallel(rank, n, wrap)


def a_mismatch_is_raised(rank: int, n: int) -> None:
    t = here(rank, 6)[: 3 + (rank == 0)]

    text = "rank 0 HcclAllReduce(sum of float32[4]); rank 1 HcclAllReduce(sum of float32[3])"
    refused(text, lambda: dist.all_reduce(t))
    t = here(rank, 2)
    dist.all_reduce(t)
    close(t, sum(values(n, 2)))


def what_hccl_refuses_is_raised(rank: int, n: int) -> None:
    t = here(rank, 3, dtype=torch.bfloat16)
    refused("does not take prod of bfloat16", lambda: dist.all_reduce(t, op=dist.ReduceOp.PRODUCT))


CHECKS = (
    all_reduce,
    all_reduce_of_what_hccl_lacks,
    broadcast,
    reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    gather_and_scatter,
    messages,
    objects,
    groups,
    ddp,
    fsdp2,
)
#: For processes without torch_npu's task queue (``TASK_QUEUE_ENABLE=0``): after an error in it torch_npu runs
#: nothing more and may say nothing, on hardware as here.
REFUSALS = (a_mismatch_is_raised, what_hccl_refuses_is_raised)


def start() -> tuple[int, int]:
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.set_device(rank)
    dist.init_process_group("cpu:gloo,npu:hccl")
    return rank, n


def run_all(refusals: bool = False) -> dict[str, str]:
    """Every check, with what it raised or an empty text."""
    rank, n = start()
    said = {}
    for check in REFUSALS if refusals else CHECKS:
        said[check.__name__] = ""
        try:
            check(rank, n)
        except BaseException:  # noqa: BLE001 - the test shows it
            said[check.__name__] = traceback.format_exc()
    dist.destroy_process_group()
    return said
