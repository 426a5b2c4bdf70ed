"""Carrying out collectives over c10d process groups. Tensors here are flat, contiguous and already checked.

Movement works on bytes (uint8), reductions on numbers; how each travels is the :class:`Library`'s decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from hetero.comm.library import HOST, Library

# torch 2.13 renames these; up to 2.12 only the old names exist.
_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

_REDUCE = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}

#: (tensor, peer's global rank)
Message = tuple[Tensor, int]


class Wire(Protocol):
    """What a Communicator needs. ``src`` and ``dst`` are global ranks, splits are in elements."""

    def all_reduce(self, t: Tensor, op: str) -> None: ...
    def reduce(self, t: Tensor, dst: int, op: str) -> None: ...
    def reduce_scatter(self, out: Tensor, t: Tensor, op: str) -> None: ...
    def broadcast(self, t: Tensor, src: int) -> None: ...
    def all_gather(self, out: Tensor, t: Tensor) -> None: ...
    def all_to_all(self, out: Tensor, t: Tensor, out_splits: list[int], in_splits: list[int]) -> None: ...
    def gather(self, out: Tensor | None, t: Tensor, dst: int) -> None: ...
    def scatter(self, out: Tensor, t: Tensor | None, src: int) -> None: ...
    def exchange(self, sends: Sequence[Message], recvs: Sequence[Message]) -> None: ...


class GroupWire:
    """Over process groups: ``group`` of the device's library, ``control`` of gloo, with the same members."""

    def __init__(self, group: dist.ProcessGroup, control: dist.ProcessGroup, library: Library) -> None:
        self.group = group
        self.control = control
        self.library = library
        self.size = group.size()

    # -- reductions
    def all_reduce(self, t: Tensor, op: str) -> None:
        def run(work: Tensor, native: Any, group: dist.ProcessGroup) -> Tensor:
            dist.all_reduce(work, op=native, group=group)
            return work

        t.copy_(self._reduce("all_reduce", t, op, run))

    def reduce(self, t: Tensor, dst: int, op: str) -> None:
        def run(work: Tensor, native: Any, group: dist.ProcessGroup) -> Tensor:
            dist.reduce(work, dst, op=native, group=group)
            return work

        # A copy: libraries leave partial results in the tensors of ranks that are not dst.
        result = self._reduce("reduce", t.clone(), op, run)
        if dist.get_rank() == dst:
            t.copy_(result)

    def reduce_scatter(self, out: Tensor, t: Tensor, op: str) -> None:
        def run(work: Tensor, native: Any, group: dist.ProcessGroup) -> Tensor:
            count = work.numel() // self.size
            if native != dist.ReduceOp.SUM and (self.library.on_host or group is self.control):
                whole = work.clone()
                dist.all_reduce(whole, op=native, group=group)
                return whole.narrow(0, group.rank() * count, count)
            part = work.new_empty(count)
            if self._in_lists(group):
                dist.reduce_scatter(part, list(work.tensor_split(self.size)), op=native, group=group)
            else:
                _reduce_scatter(part, work, op=native, group=group)
            return part

        out.copy_(self._reduce("reduce_scatter", t, op, run))

    def _reduce(self, name: str, t: Tensor, op: str, run: Callable[[Tensor, Any, Any], Tensor]) -> Tensor:
        plan = self.library.reduction(t.dtype, op)
        work, group = self._carry(name, t.to(plan.wire), force_host=plan.host)
        result = run(work, _REDUCE[plan.op], group)
        return result.div_(self.size) if plan.divide else result

    # -- movement
    def broadcast(self, t: Tensor, src: int) -> None:
        work, group = self._bytes("broadcast", t)
        dist.broadcast(work, src, group=group)
        self._land(t, work)

    def all_gather(self, out: Tensor, t: Tensor) -> None:
        work, group = self._bytes("all_gather", t)
        got = self._like(out, work)
        if self._in_lists(group):
            dist.all_gather(list(got.tensor_split(self.size)), work, group=group)
        else:
            _all_gather(got, work, group=group)
        self._land(out, got)

    def all_to_all(self, out: Tensor, t: Tensor, out_splits: list[int], in_splits: list[int]) -> None:
        if "all_to_all" in self.library.by_messages:
            self._all_to_all_by_messages(out.split(out_splits), t.split(in_splits))
            return
        work, group = self._bytes("all_to_all", t)
        got = self._like(out, work)
        dist.all_to_all_single(got, work, out_splits, in_splits, group=group)
        self._land(out, got)

    def _all_to_all_by_messages(self, outs: Sequence[Tensor], parts: Sequence[Tensor]) -> None:
        me, ranks = self.group.rank(), dist.get_process_group_ranks(self.group)
        outs[me].copy_(parts[me])
        # Round k: to the rank k further on, from the one k before, so that no rank has to wait for a busy one.
        others = [(me + k) % self.size for k in range(1, self.size)]
        sends = [(parts[r], ranks[r]) for r in others if parts[r].numel()]
        recvs = [(outs[r], ranks[r]) for r in reversed(others) if outs[r].numel()]
        if sends or recvs:
            self.exchange(sends, recvs)

    def gather(self, out: Tensor | None, t: Tensor, dst: int) -> None:
        work, group = self._bytes("gather", t)
        got = None if out is None else self._like(out, work)
        dist.gather(work, None if got is None else list(got.tensor_split(self.size)), dst, group=group)
        if out is not None and got is not None:
            self._land(out, got)

    def scatter(self, out: Tensor, t: Tensor | None, src: int) -> None:
        work, group = self._bytes("scatter", out)
        parts = None if t is None else list(t.to(work.device).view(work.dtype).tensor_split(self.size))
        dist.scatter(work, parts, src, group=group)
        self._land(out, work)

    def exchange(self, sends: Sequence[Message], recvs: Sequence[Message]) -> None:
        operations, landed = [], []
        for t, peer in sends:
            work, group = self._bytes("batch_p2p", t)
            operations.append(dist.P2POp(dist.isend, work, peer, group))
        for t, peer in recvs:
            work, group = self._bytes("batch_p2p", t)
            operations.append(dist.P2POp(dist.irecv, work, peer, group))
            landed.append((t, work))
        for pending in dist.batch_isend_irecv(operations):
            pending.wait()
        for t, work in landed:
            self._land(t, work)

    # -- where it travels
    def _carry(self, name: str, t: Tensor, force_host: bool = False) -> tuple[Tensor, dist.ProcessGroup]:
        """``t`` and the group that takes it: as it is, or in host memory for gloo."""
        if force_host or self.library.route(name)[0]:
            return t.cpu(), self.control
        return t, self.group

    def _bytes(self, name: str, t: Tensor) -> tuple[Tensor, dist.ProcessGroup]:
        """The same for bytes, in the dtype that the library moves."""
        work, group = self._carry(name, t)
        return work.view(self.library.bytes_as), group

    def _in_lists(self, group: dist.ProcessGroup) -> bool:
        return self.size in self.library.lists_at and group is not self.control

    @staticmethod
    def _like(out: Tensor, work: Tensor) -> Tensor:
        """Where the bytes for ``out`` can land: in it, or in new memory where ``work`` is."""
        where = out if out.device == work.device else torch.empty_like(out, device=work.device)
        return where.view(work.dtype)

    @staticmethod
    def _land(out: Tensor, got: Tensor) -> None:
        if got.device != out.device:
            out.copy_(got.view(out.dtype))


class LoneWire:
    """One rank alone, with no process group. It plans reductions too, so it refuses what others refuse."""

    def __init__(self, library: Library = HOST) -> None:
        self.library = library

    def all_reduce(self, t: Tensor, op: str) -> None:
        self.library.reduction(t.dtype, op)

    def reduce(self, t: Tensor, dst: int, op: str) -> None:
        self.library.reduction(t.dtype, op)

    def reduce_scatter(self, out: Tensor, t: Tensor, op: str) -> None:
        self.library.reduction(t.dtype, op)
        out.copy_(t)

    def broadcast(self, t: Tensor, src: int) -> None:
        pass

    def all_gather(self, out: Tensor, t: Tensor) -> None:
        out.copy_(t)

    def all_to_all(self, out: Tensor, t: Tensor, out_splits: list[int], in_splits: list[int]) -> None:
        out.copy_(t)

    def gather(self, out: Tensor | None, t: Tensor, dst: int) -> None:
        if out is not None:
            out.copy_(t)

    def scatter(self, out: Tensor, t: Tensor | None, src: int) -> None:
        if t is not None:
            out.copy_(t)

    def exchange(self, sends: Sequence[Message], recvs: Sequence[Message]) -> None:
        if sends or recvs:
            raise AssertionError("a lone rank has no peer; the Communicator refuses this")
