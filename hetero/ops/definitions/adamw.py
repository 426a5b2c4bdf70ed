"""AdamW over a list of tensors, in place.

With ``g`` scaled by ``grad_scale``: ``m = b1 m + (1-b1) g``, ``v = b2 v + (1-b2) g^2``, ``p = p (1 - lr wd)``,
``p -= lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps)``. The maths is float32. A parameter stored in bfloat16 has a
float32 master that is updated and then rounded into it; without one, updates smaller than half a bfloat16 step
are lost.
Source: Loshchilov and Hutter 2019, arXiv:1711.05101; numbers as ``torch.optim.AdamW``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import shapes
from hetero.ops.definitions.devices import one_device
from hetero.ops.definitions.precision import wide_dtype
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample


def _adamw(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], masters: list[Tensor],
    grad_scale: Tensor | None, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int,
) -> None:  # fmt: skip
    step_size = lr / (1 - beta1**step)
    root = (1 - beta2**step) ** 0.5
    for i, (param, grad, m, v) in enumerate(zip(params, grads, exp_avgs, exp_avg_sqs)):
        target = masters[i] if masters else param
        g = grad.to(m.dtype)
        if grad_scale is not None:
            g = g * grad_scale
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        update = m / (v.sqrt() / root + eps)
        new = target.to(m.dtype) * (1 - lr * weight_decay) - step_size * update
        target.copy_(new)
        if masters:
            param.copy_(new)


def _fake(*_: Any) -> None:
    return None


def _prepare(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    masters: Sequence[Tensor] = (),
    *,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    step: int,
    grad_scale: Tensor | None = None,
) -> tuple[Any, ...]:
    lists = {"grads": grads, "exp_avgs": exp_avgs, "exp_avg_sqs": exp_avg_sqs}
    if masters:
        lists["masters"] = masters
    for name, tensors in lists.items():
        if len(tensors) != len(params):
            raise OpError(f"adamw: {len(tensors)} {name} for {len(params)} params")
        for i, (t, p) in enumerate(zip(tensors, params)):
            if t.shape != p.shape:
                raise OpError(
                    f"adamw: {name}[{i}] has shape {tuple(t.shape)}, its parameter {tuple(p.shape)}"
                )
            if t.device != p.device:
                raise OpError(f"adamw: {name}[{i}] is on {t.device}, its parameter on {p.device}")
            if name != "grads" and t.dtype != wide_dtype(p.dtype):
                raise OpError(f"adamw: {name}[{i}] is {t.dtype}; state is {wide_dtype(p.dtype)}")
    if len({(p.dtype, p.device) for p in params}) > 1 or len({g.dtype for g in grads}) > 1:
        raise OpError(
            "adamw: the params of one call must have one dtype and one device, the grads one dtype; group them"
        )
    if params and grad_scale is not None:
        one_device("adamw", params[0], grad_scale=grad_scale)
        if grad_scale.dim() or grad_scale.dtype != torch.float32:
            raise OpError(
                f"adamw: grad_scale must be a 0-dim float32 tensor, got {grad_scale.dtype} {tuple(grad_scale.shape)}"
            )
    if not (0 <= beta1 < 1 and 0 <= beta2 < 1):
        raise OpError(f"adamw: beta1={beta1} and beta2={beta2} must be in [0, 1)")
    if step < 1:
        raise OpError(f"adamw: step={step}; the first step is 1")
    return (
        list(params), list(grads), list(exp_avgs), list(exp_avg_sqs), list(masters), grad_scale,
        lr, beta1, beta2, eps, weight_decay, step,
    )  # fmt: skip


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    state = wide_dtype(dtype)

    def tensors(scale: float, kind: torch.dtype, square: bool = False) -> list[Tensor]:
        drawn = [
            shapes.normal(s, device, kind, generator, scale) for s in ((1,), (3, 7), (1023,), (0,), (64, 33))
        ]
        return [t.square() for t in drawn] if square else drawn

    def case(
        name: str,
        step: int,
        decay: float,
        master: bool,
        scale: Tensor | None,
        grad_scale: float = 1.0,
        beta2: float = 0.999,
    ) -> Sample:
        params = tensors(1.0, dtype)
        masters = [p.to(state) * 1.001 for p in params] if master else []
        lists = (
            params,
            tensors(grad_scale, dtype),
            tensors(0.1, state),
            tensors(0.1, state, square=True),
            masters,
        )
        return Sample(name, (*lists, scale, 1e-2, 0.9, beta2, 1e-8, decay, step))

    yield case("first step", 1, 0.0, dtype != state, None)
    yield case("later, decayed", 1000, 0.1, dtype != state, None)
    yield case("scaled gradient", 3, 0.01, dtype != state, torch.tensor(0.25, device=device, dtype=state))
    yield case("huge gradient", 3, 0.01, dtype != state, None, grad_scale=1e6)
    yield case("no masters", 5, 0.1, False, None)
    yield case("beta2 of large models", 2, 0.1, dtype != state, None, beta2=0.95)
    yield case(
        "beta2 of large models, no masters, huge gradient", 7, 0.0, False, None, grad_scale=1e4, beta2=0.95
    )


OP = declare(
    Op(
        name="adamw",
        forward=Pass(
            "(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs,"
            " Tensor(d!)[] masters, Tensor? grad_scale, float lr, float beta1, float beta2, float eps,"
            " float weight_decay, int step) -> ()",
            _adamw,
            _fake,
            operands=("params", "grads"),
            flags=("beta1", "beta2"),
        ),
        backward=None,
        prepare=_prepare,
        samples=_samples,
        cost=lambda params, grads, m, v, masters, *_: Cost(
            12 * sum(p.numel() for p in params),
            sum(t.nbytes for ts in (params, m, v, masters) for t in ts) * 2 + sum(g.nbytes for g in grads),
        ),
        public=0,
    )
)


def adamw(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    masters: Sequence[Tensor] = (),
    *,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    step: int,
    grad_scale: Tensor | None = None,
) -> None:
    """One AdamW step for every tensor of the lists, in place.

    Args:
        params: parameters, one dtype a call. grads: their gradients, same shapes; that dtype or float32.
        exp_avgs, exp_avg_sqs: first and second moments, float32.
        masters: float32 copies that are updated and rounded into ``params``, or empty (then ``params`` are updated).
        lr, beta1, beta2, eps, weight_decay: as ``torch.optim.AdamW``. step: 1 for the first.
        grad_scale: 0-dim float32 tensor that multiplies every gradient (from clipping or unscaling); no host sync.

    Raises:
        OpError: lists, shapes or dtypes that do not fit.
    """
    if not params:
        return
    args = _prepare(
        params, grads, exp_avgs, exp_avg_sqs, masters, lr=lr, beta1=beta1, beta2=beta2, eps=eps,
        weight_decay=weight_decay, step=step, grad_scale=grad_scale,
    )  # fmt: skip
    OP.forward(*args)
