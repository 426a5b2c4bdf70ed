"""Cross entropy of logits, with label smoothing, z-loss and logit soft-capping.

With ``z = c tanh(logits / c)`` when capped: ``loss = (1-e)(lse - z_y) + (e/V) sum_v (lse - z_v) + l lse^2``. Gradient:
``(1 + 2 l lse) p_v - e/V - (1-e) 1[v = y]``, times ``1 - (z_v/c)^2`` when capped. Ignored rows give exactly 0. The
op returns a loss per row; the reduction is ordinary torch on top, so that any upstream gradient is right. Source:
Szegedy et al. 2015, arXiv:1512.00567 (smoothing); Chowdhery et al. 2022, arXiv:2204.02311 (z-loss); Gemma Team
2024, arXiv:2408.00118 (soft-capping).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import shapes
from hetero.ops.definitions.devices import one_device
from hetero.ops.definitions.precision import wide
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample

REDUCTIONS = ("mean", "sum", "none")


def capped(logits: Tensor, softcap: float) -> Tensor:
    """Wide logits after soft-capping (0 = off)."""
    z = wide(logits)
    return softcap * torch.tanh(z / softcap) if softcap else z


def row_losses(
    z: Tensor, labels: Tensor, ignore_index: int, label_smoothing: float, z_loss: float
) -> tuple[Tensor, Tensor]:
    """Loss and log-sum-exp of each row of capped logits ``z`` [N, V]; both 0 where the label is ignored."""
    kept = labels != ignore_index
    lse = torch.logsumexp(z, -1)
    picked = z.gather(-1, labels.where(kept, 0)[:, None])[:, 0]
    loss = lse - picked
    if label_smoothing:
        loss = (1 - label_smoothing) * loss + label_smoothing * (lse - z.mean(-1))
    if z_loss:
        loss = loss + z_loss * lse.square()
    return loss.where(kept, 0.0), lse.where(kept, 0.0)


def row_gradients(
    g_loss: Tensor, z: Tensor, labels: Tensor, lse: Tensor, ignore_index: int, label_smoothing: float, z_loss: float,
    softcap: float,
) -> Tensor:  # fmt: skip
    """Gradient of ``sum(g_loss * loss)`` by the logits, in the dtype of ``z``."""
    kept = labels != ignore_index
    d_z = torch.exp(z - lse[:, None])
    if z_loss:
        d_z = d_z * (1 + 2 * z_loss * lse)[:, None]
    if label_smoothing:
        d_z = d_z - label_smoothing / z.shape[-1]
    at = labels.where(kept, 0)[:, None]
    d_z = d_z.scatter_add(-1, at, torch.full_like(at, -(1 - label_smoothing), dtype=z.dtype))
    if softcap:
        d_z = d_z * (1 - (z / softcap).square())
    return torch.where(kept[:, None], d_z * g_loss[:, None].to(z.dtype), 0.0)


def check_labels(name: str, labels: Tensor, classes: int, ignore_index: int) -> None:
    """Refuse a label outside ``[0, classes)`` on devices where looking costs no synchronisation (the CPU)."""
    if not labels.is_cpu or labels.numel() == 0:
        return
    bad = ((labels < 0) | (labels >= classes)) & (labels != ignore_index)
    if bool(bad.any()):
        row = int(bad.nonzero()[0, 0])
        raise IndexError(
            f"{name}: row {row}: label {int(labels[row])} is outside [0, {classes}) and not ignore_index {ignore_index}"
        )


def _forward(
    logits: Tensor, labels: Tensor, ignore_index: int, label_smoothing: float, z_loss: float, softcap: float
) -> tuple[Tensor, Tensor]:
    check_labels("cross_entropy", labels, logits.shape[-1], ignore_index)
    return row_losses(capped(logits, softcap), labels, ignore_index, label_smoothing, z_loss)


def _backward(
    g_loss: Tensor, logits: Tensor, labels: Tensor, lse: Tensor, ignore_index: int, label_smoothing: float,
    z_loss: float, softcap: float,
) -> Tensor:  # fmt: skip
    z = capped(logits, softcap)
    d_z = row_gradients(g_loss, z, labels, lse, ignore_index, label_smoothing, z_loss, softcap)
    return d_z.to(logits.dtype).contiguous()


def _fake_forward(logits: Tensor, labels: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    dtype = wide(logits).dtype
    return logits.new_empty(labels.shape, dtype=dtype), logits.new_empty(labels.shape, dtype=dtype)


def _fake_backward(g_loss: Tensor, logits: Tensor, *_: Any) -> Tensor:
    return logits.new_empty(logits.shape)


def check_loss_options(name: str, label_smoothing: float, reduction: str) -> None:
    """Refuse what has no meaning."""
    if not 0.0 <= label_smoothing <= 1.0:
        raise OpError(f"{name}: label_smoothing={label_smoothing} is outside [0, 1]")
    if reduction not in REDUCTIONS:
        raise OpError(f"{name}: reduction={reduction!r} is not one of {REDUCTIONS}")


def _prepare(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    reduction: str = "mean",
) -> tuple[Any, ...]:
    if (
        logits.dim() == 0
        or logits.shape[-1] == 0
        or labels.shape != logits.shape[:-1]
        or labels.dtype != torch.int64
    ):
        raise OpError(
            f"cross_entropy: labels must be int64 {tuple(logits.shape[:-1])} for logits {tuple(logits.shape)}, "
            f"got {labels.dtype} {tuple(labels.shape)} (classes, at least one, are the last dimension)"
        )
    one_device("cross_entropy", logits, labels=labels)
    check_loss_options("cross_entropy", label_smoothing, reduction)
    rows = logits.reshape(-1, logits.shape[-1])
    return rows, labels.reshape(-1), ignore_index, label_smoothing, z_loss, softcap or 0.0


def reduced(loss: Tensor, labels: Tensor, ignore_index: int, reduction: str) -> Tensor:
    """``loss`` [N] reduced; "mean" is over rows that are not ignored, and 0 when there are none."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    return loss.sum() / (labels != ignore_index).sum().clamp(min=1)


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    def case(
        name: str,
        rows: int,
        classes: int,
        *options: Any,
        scale: float = 3.0,
        ignored: float = 0.3,
        ignore: int = -100,
    ) -> Sample:
        logits = shapes.normal((rows, classes), device, dtype, generator, scale)
        labels = shapes.labels_for(rows, classes, device, generator, ignore, ignored)
        return Sample(name, (logits, labels, ignore, *options))

    plain = (0.0, 0.0, 0.0)
    for rows, classes in ((1, 2), (3, 7), (5, 17), (4, 1000), (9, 1023), (0, 16)):
        yield case(f"{rows}x{classes}", rows, classes, *plain)
    yield case("smoothed", 6, 101, 0.1, 0.0, 0.0)
    yield case("z-loss", 6, 101, 0.0, 1e-3, 0.0)
    yield case("soft-capped", 6, 101, 0.0, 0.0, 5.0)
    yield case("everything", 6, 101, 0.1, 1e-3, 30.0, scale=40.0)
    yield case("positive ignore_index", 6, 33, *plain, ignore=0)
    yield case("all ignored", 4, 33, *plain, ignored=2.0)
    yield case("none ignored", 4, 33, *plain, ignored=-1.0)
    yield case("huge", 4, 65, *plain, scale=1e4)
    logits = shapes.strided(shapes.normal((5, 40), device, dtype, generator, 3.0))
    yield Sample("strided", (logits, shapes.labels_for(5, 40, device, generator, -100), -100, *plain))
    masked = shapes.normal((3, 9), device, dtype, generator)
    masked[:, 4:] = float("-inf")
    yield Sample("some classes at -inf", (masked, torch.tensor([0, 3, 1], device=device), -100, *plain))


_SCHEMA = "int ignore_index, float label_smoothing, float z_loss, float softcap"


_FLAGS = ("label_smoothing", "z_loss", "softcap")

OP = declare(
    Op(
        name="cross_entropy",
        forward=Pass(
            f"(Tensor logits, Tensor labels, {_SCHEMA}) -> (Tensor loss, Tensor lse)",
            _forward,
            _fake_forward,
            operands=("logits",),
            flags=_FLAGS,
        ),
        backward=Pass(
            f"(Tensor g_loss, Tensor logits, Tensor labels, Tensor lse, {_SCHEMA}) -> (Tensor d_logits)",
            _backward,
            _fake_backward,
            operands=("logits",),
            flags=_FLAGS,
        ),
        grads={"logits": "d_logits"},
        prepare=_prepare,
        samples=_samples,
        cost=lambda logits, *_: Cost(5 * logits.numel(), logits.nbytes),
        backward_cost=lambda logits, *_: Cost(4 * logits.numel(), 2 * logits.nbytes),
    )
)


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy in float32, for logits of any floating dtype.

    Args:
        logits: ``[..., classes]`` (classes last, unlike ``F.cross_entropy``).
        labels: int64 ``[...]``; not shifted here.
        ignore_index: label of rows that give no loss and no gradient; may be any integer.
        label_smoothing, z_loss, softcap: see the module; None or 0 is off.
        reduction: ``"mean"`` over the rows that are not ignored (0, not NaN, when all are), ``"sum"`` or ``"none"``.

    Returns:
        float32 scalar, or ``[...]`` for ``"none"``.

    Raises:
        OpError: shapes or options that do not fit.
        IndexError: a label outside ``[0, classes)`` (on the CPU; elsewhere looking would synchronise).
    """
    args = _prepare(
        logits,
        labels,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
        softcap=softcap,
        reduction=reduction,
    )
    loss = OP.apply(*args)
    return (
        loss.reshape(labels.shape) if reduction == "none" else reduced(loss, labels, ignore_index, reduction)
    )
