"""One optimiser step: the forward and backward passes of an accumulation window, clipping, the update."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from hetero.train.algorithms.base import Algorithm, Example
from hetero.train.distributed import Engine
from hetero.train.optim import AdamW


@dataclass(frozen=True)
class StepResult:
    """What a window came to, the same on every rank. ``applied`` is False when it was skipped."""

    loss: float
    grad_norm: float
    tokens: int
    metrics: dict[str, float]
    applied: bool
    stop: bool


class Stepper:
    """Takes windows of examples through :class:`Engine` and the optimiser."""

    def __init__(
        self, model: nn.Module, algorithm: Algorithm, engine: Engine, optimizer: AdamW, max_grad_norm: float
    ) -> None:
        self._model, self._algorithm = model, algorithm
        self._engine, self._optimizer = engine, optimizer
        self._max_norm = max_grad_norm if max_grad_norm > 0 else math.inf

    def __call__(
        self, window: Sequence[Sequence[Example]], lr: float, stopping: Callable[[], bool] = lambda: False
    ) -> StepResult:
        """Train on ``window``: one list of examples for each micro-batch, at least one on every rank.

        The gradient is that of the mean over the items of the whole window and all ranks, however it is
        split. When the loss or the gradient norm is not finite, no rank updates anything: both numbers are
        sums over ranks, so all ranks see the same and decide alike. ``stopping`` is asked after the backward
        passes; when it is true on any rank, ``stop`` is true in the result of every rank.

        The host waits for the device once a step, to read the loss, the norm and the metrics together.
        """
        batches = self._algorithm.build(self._engine, window)
        items, tokens = self._engine.count(batches)
        self._optimizer.zero_grad(set_to_none=True)
        losses, sums = [], []
        for number, batch in enumerate(batches):
            loss, more = self._engine.forward_backward(batch, items, last=number == len(batches) - 1)
            losses.append(loss.float())
            sums.append(more)
        norm = self._optimizer.grad_norm()
        total = torch.stack(losses).sum()
        stop = total.new_full((1,), float(stopping()))
        names = sorted(sums[0])
        means = [torch.stack([s[name].float() for s in sums]).sum(0) for name in names]
        reduced = self._engine.sum_floats(torch.cat([total.reshape(1), stop, *means]))
        norm_value, loss_value, stops, *pairs = torch.cat([norm.float().reshape(1), reduced]).tolist()
        finite = math.isfinite(loss_value) and math.isfinite(norm_value)
        if finite:
            self._optimizer.set_lr(lr)
            # Clipping costs no pass over the gradients: the update multiplies them on its way.
            scale = (self._max_norm / (norm + 1e-6)).clamp(max=1.0) if norm_value > self._max_norm else None
            self._optimizer.step(grad_scale=scale)
        metrics = {
            name: pairs[2 * i] / pairs[2 * i + 1] for i, name in enumerate(names) if pairs[2 * i + 1] != 0
        }
        metrics |= self._algorithm.derived(metrics)
        return StepResult(loss_value, norm_value, tokens, metrics, finite, stops > 0)
