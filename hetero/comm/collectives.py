"""The tensor collectives of a communicator: arguments checked, call described, result written back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hetero.comm import precheck, tensors
from hetero.comm.core import Core
from hetero.errors import CommError


class Collectives(Core):
    """See :class:`hetero.comm.Communicator`."""

    # -- reductions: op is "sum", "avg", "product", "min" or "max"
    def all_reduce(self, t: Tensor, op: str = "sum") -> Tensor:
        """Reduce ``t`` over the ranks, in place everywhere. Returns ``t``."""
        flat, numbers = self._reducible(t, op)
        self._run(f"all_reduce({tensors.show(t)}, op={op})", lambda: self._wire.all_reduce(numbers, op))
        tensors.write_back(t, flat)
        return t

    def reduce(self, t: Tensor, dst: int = 0, op: str = "sum") -> Tensor:
        """Reduce ``t`` over the ranks, in place on ``dst`` alone. Returns ``t``."""
        flat, numbers = self._reducible(t, op)
        root = self._global(dst, "dst")
        text = f"reduce({tensors.show(t)}, dst={root}, op={op})"
        self._run(text, lambda: self._wire.reduce(numbers, root, op))
        if self.rank == dst:
            tensors.write_back(t, flat)
        return t

    def reduce_scatter_tensor(self, out: Tensor, t: Tensor, op: str = "sum") -> Tensor:
        """Reduce ``t`` and give each rank its part, by rank, of the flattened result. Returns ``out``.

        ``t.numel()`` is ``world_size * out.numel()``; for a ``t`` of shape [world_size * n, ...], ``out`` is
        [n, ...].
        """
        self._same_dtype(out, t)
        self._whole(t, out, "t", "out")
        _, numbers = self._reducible(t, op)
        part = tensors.dense(out)
        part_numbers = tensors.as_numbers(part, op)
        text = f"reduce_scatter({tensors.show(t)} -> {tensors.show(out)}, op={op})"
        self._run(text, lambda: self._wire.reduce_scatter(part_numbers, numbers, op))
        tensors.write_back(out, part)
        return out

    def reduce_scatter(self, inputs: Sequence[Tensor], op: str = "sum") -> Tensor:
        """Reduce ``inputs[r]``, one shape for all, over the ranks onto rank r. Returns this rank's."""
        parts = self._equal_list(inputs, "inputs")
        out = torch.empty_like(parts[0], memory_format=torch.contiguous_format)
        return self.reduce_scatter_tensor(out, torch.stack([t.detach() for t in parts]), op)

    # -- movement
    def broadcast(self, t: Tensor, src: int = 0) -> Tensor:
        """Give every rank ``src``'s ``t``, in place. Returns ``t``."""
        flat = self._flat(t, "t")
        root = self._global(src, "src")
        text = f"broadcast({tensors.show(t)}, src={root})"
        self._run(text, lambda: self._wire.broadcast(tensors.as_bytes(flat), root))
        tensors.write_back(t, flat)
        return t

    def all_gather_into_tensor(self, out: Tensor, t: Tensor) -> Tensor:
        """Every rank's ``t``, by rank, into ``out`` on every rank. Returns ``out``.

        ``out.numel()`` is ``world_size * t.numel()``: [world_size * n, ...] or [world_size, n, ...] for [n,
        ...].
        """
        self._same_dtype(out, t)
        self._whole(out, t, "out", "t")
        flat, into = self._flat(t, "t"), self._flat(out, "out")
        text = f"all_gather({tensors.show(t)})"
        self._run(text, lambda: self._wire.all_gather(tensors.as_bytes(into), tensors.as_bytes(flat)))
        tensors.write_back(out, into)
        return out

    def all_gather(self, t: Tensor) -> list[Tensor]:
        """Every rank's ``t``, by rank; all have one shape. The results share one new block of memory."""
        self._flat(t, "t")
        return list(self.all_gather_into_tensor(t.new_empty((self.world_size, *t.shape)), t).unbind())

    def gather(self, t: Tensor, dst: int = 0) -> list[Tensor] | None:
        """On ``dst``, every rank's ``t`` by rank, all of one shape; None elsewhere."""
        flat = self._flat(t, "t")
        root = self._global(dst, "dst")
        out = t.new_empty((self.world_size, *t.shape)) if self.rank == dst else None
        into = None if out is None else tensors.as_bytes(out.view(-1))
        text = f"gather({tensors.show(t)}, dst={root})"
        self._run(text, lambda: self._wire.gather(into, tensors.as_bytes(flat), root))
        return None if out is None else list(out.unbind())

    def scatter(self, out: Tensor, inputs: Sequence[Tensor] | None = None, src: int = 0) -> Tensor:
        """Give rank r ``inputs[r]`` of rank ``src``, which alone has them, in ``out``. Returns ``out``."""
        into = self._flat(out, "out")
        root = self._global(src, "src")
        if (self.rank == src) != (inputs is not None):
            raise CommError(
                f"scatter: rank {root} and no other gives inputs; this is rank {self.ranks[self.rank]}"
            )
        whole = None
        if inputs is not None:
            parts = self._equal_list(inputs, "inputs")
            if parts[0].shape != out.shape or parts[0].dtype != out.dtype:
                raise CommError(
                    f"scatter: inputs are {tensors.show(parts[0])} each, out is {tensors.show(out)}"
                )
            whole = tensors.as_bytes(torch.cat([tensors.dense(t) for t in parts]))
        text = f"scatter({tensors.show(out)}, src={root})"
        self._run(text, lambda: self._wire.scatter(tensors.as_bytes(into), whole, root))
        tensors.write_back(out, into)
        return out

    def all_to_all_single(
        self,
        out: Tensor,
        t: Tensor,
        out_splits: Sequence[int] | None = None,
        in_splits: Sequence[int] | None = None,
    ) -> Tensor:
        """Send part r of ``t``'s rows to rank r and put what comes from rank r in part r of ``out``. Returns
        ``out``.

        Splits count rows (dimension 0), one for each rank; None: equal parts. Rows have one shape on all
        ranks.
        """
        self._same_dtype(out, t)
        if out.dim() == 0 or t.dim() == 0 or out.shape[1:] != t.shape[1:]:
            raise CommError(
                f"all_to_all: the rows of t {tensors.show(t)} and out {tensors.show(out)} differ in shape"
            )
        sends = tensors.check_splits(in_splits, "in_splits", self.world_size, t.shape[0])
        wants = tensors.check_splits(out_splits, "out_splits", self.world_size, out.shape[0])
        flat, into = self._flat(t, "t"), self._flat(out, "out")
        row = t.itemsize * t.shape[1:].numel()
        text = f"all_to_all(rows of {str(t.dtype).removeprefix('torch.')}{list(t.shape[1:])})"

        def move() -> None:
            byte_wants, byte_sends = [n * row for n in wants], [n * row for n in sends]
            self._wire.all_to_all(tensors.as_bytes(into), tensors.as_bytes(flat), byte_wants, byte_sends)

        self._run(text, move, check=lambda: precheck.agree_splits(self._host, self.ranks, text, wants, sends))
        tensors.write_back(out, into)
        return out

    # -- arguments
    def _flat(self, t: Tensor, name: str) -> Tensor:
        return tensors.dense(tensors.check(t, name, self.device.torch))

    def _reducible(self, t: Tensor, op: str) -> tuple[Tensor, Tensor]:
        """``t`` flat, and the same memory as the numbers to reduce. Refuses what no library can reduce."""
        flat = self._flat(t, "t")
        numbers = tensors.as_numbers(flat, op)
        self.job.library.reduction(numbers.dtype, op)
        return flat, numbers

    def _global(self, rank: int, name: str) -> int:
        if not 0 <= rank < self.world_size:
            raise CommError(f"{name}={rank} is not a rank of this group (0 to {self.world_size - 1})")
        return self.ranks[rank]

    def _equal_list(self, inputs: Sequence[Tensor], name: str) -> list[Tensor]:
        parts = tensors.check_list(inputs, name, self.world_size, self.device.torch)
        if len({t.shape for t in parts}) > 1:
            raise CommError(f"{name} differ in shape: {', '.join(map(tensors.show, parts))}")
        return parts

    def _same_dtype(self, out: Tensor, t: Tensor) -> None:
        for tensor, name in ((out, "out"), (t, "t")):
            tensors.check(tensor, name, self.device.torch)
        if out.dtype != t.dtype:
            raise CommError(f"out is {out.dtype}, t is {t.dtype}: they must be the same")

    def _whole(self, whole: Tensor, part: Tensor, whole_name: str, part_name: str) -> None:
        if whole.numel() != self.world_size * part.numel():
            raise CommError(
                f"{whole_name} {tensors.show(whole)} must have {self.world_size} times the elements of "
                f"{part_name} {tensors.show(part)}, one part for each rank"
            )
