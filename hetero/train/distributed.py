"""Forward and backward over one or several ranks."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hetero import errors
from hetero.errors import HeteroError

if TYPE_CHECKING:
    from hetero.accelerator import Device
    from hetero.comm import Communicator
    from hetero.train.algorithms.base import Algorithm, Batch, Items, Sums


T = TypeVar("T")

# No broadcast of buffers in each forward pass. Torch 2.13 renamed the argument.
_RENAMED = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
_KEEP_BUFFERS: dict[str, Any] = {"forward_sync_buffers" if _RENAMED else "broadcast_buffers": False}


def on_rank_0(comm: Communicator, compute: Callable[[], T]) -> T:
    """Do something on rank 0 alone and give its result, which JSON can hold, to every rank.

    A :class:`HeteroError` is raised on every rank too: none is left waiting for a rank that gave up.
    """
    result: dict[str, Any] = {}
    caught: HeteroError | None = None
    if comm.rank == 0:
        try:
            result["value"] = compute()
        except HeteroError as error:
            caught = error
            result = {"kind": type(error).__name__, "message": str(error)}
    result = comm.broadcast_object(result, src=0)
    if "value" in result:
        return result["value"]
    raise caught or getattr(errors, result["kind"], HeteroError)(result["message"])


class _LossModule(nn.Module):
    """Model and loss as one module, so that DDP's forward hooks surround all use of the parameters."""

    def __init__(self, model: nn.Module, algorithm: Algorithm) -> None:
        super().__init__()
        self.model = model
        self._algorithm = algorithm

    def forward(self, batch: Batch, items: Items) -> tuple[Tensor, Sums]:
        return self._algorithm.loss(self.model, batch, items)


class Engine:
    """Runs micro-batches; after the last of a window every rank holds the window's whole gradient.

    With several ranks this is torch's DDP, which averages: since a loss is already divided by the items of
    all ranks, it is multiplied by their number first. Only the window's last backward communicates.
    """

    def __init__(self, model: nn.Module, algorithm: Algorithm, device: Device, comm: Communicator) -> None:
        self.model, self.device, self.comm = model, device, comm
        self._algorithm = algorithm
        self._module: nn.Module = _LossModule(model, algorithm)
        if comm.world_size > 1:
            with comm.guard("the comparison of models across ranks"):
                self._module = DistributedDataParallel(
                    self._module,
                    device_ids=None if device.type == "cpu" else [device.index],
                    process_group=comm.group,
                    gradient_as_bucket_view=True,
                    **_KEEP_BUFFERS,
                )

    def forward_backward(self, batch: Batch, items: Items, *, last: bool) -> tuple[Tensor, Sums]:
        """One micro-batch; returns its detached loss share and metric sums on the device."""
        module = self._module
        context: AbstractContextManager[None] = contextlib.nullcontext()
        if isinstance(module, DistributedDataParallel):
            context = self.comm.guard("the sum of gradients over ranks") if last else module.no_sync()
        with context:
            loss, sums = module(self.to_device(batch), items)
            (loss * self.comm.world_size).backward()
        return loss.detach(), sums

    @torch.no_grad()
    def forward(self, batch: Batch, items: Items) -> tuple[Tensor, Sums]:
        """The loss alone, for evaluation. Does not communicate."""
        module = self._module.module if isinstance(self._module, DistributedDataParallel) else self._module
        return module(self.to_device(batch), items)

    def to_device(self, batch: Batch) -> Batch:
        """Copy the tensors of ``batch`` to the device, without waiting for the copies."""
        return {
            key: value.to(self.device.torch, non_blocking=True) if isinstance(value, Tensor) else value
            for key, value in batch.items()
        }

    def count(self, batches: Sequence[Batch]) -> tuple[Items, int]:
        """Items of each kind in the batches of all ranks together, at least 1; and input tokens.

        At least 1 because a window without a single item has the finite loss 0 / 1.
        """
        found = [self._algorithm.items(batch) for batch in batches]
        names = sorted(found[0])
        *items, tokens = self.sum_counts(
            *(sum(counts[name] for counts in found) for name in names),
            sum(self._algorithm.tokens(batch) for batch in batches),
        )
        return {name: max(number, 1) for name, number in zip(names, items, strict=True)}, tokens

    def sum_counts(self, *counts: int) -> list[int]:
        """Whole numbers summed over all ranks."""
        if self.comm.world_size == 1:
            return list(counts)
        total = torch.tensor(counts, dtype=torch.int64, device=self.device.torch)
        self.comm.all_reduce(total)
        return [int(n) for n in total.tolist()]

    def sum_floats(self, values: Tensor) -> Tensor:
        """A float32 vector summed over all ranks, in place."""
        if self.comm.world_size > 1:
            self.comm.all_reduce(values)
        return values
