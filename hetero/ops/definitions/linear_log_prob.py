"""Log-probability of the chosen token and entropy of the distribution, without ever holding all logits.

With ``z = softcapped(hidden weight^T + bias) / T``: ``logp = z_y - lse(z)`` and ``H = lse - sum p z``. Backward
makes the logits again, one chunk of tokens at a time: ``dz = g_logp (1[v = y] - p) - g_H p (log p + H)``,
divided by ``T`` and times ``1 - (z T / c)^2`` when capped. Ignored rows give 0 for both. This is the op of
policy losses: one pass gives what DPO, GRPO and their metrics need.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import cross_entropy as ce
from hetero.ops.definitions import linear_head, shapes
from hetero.ops.definitions.precision import wide_dtype
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample


def _forward(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, temperature: float, softcap: float,
    ignore_index: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    ce.check_labels("linear_log_prob", labels, weight.shape[0], ignore_index)
    rows, dtype = hidden.shape[0], wide_dtype(hidden.dtype)
    logp, entropy, lse = (hidden.new_empty(rows, dtype=dtype) for _ in range(3))
    for part in linear_head.chunks(rows, weight.shape[0]):
        z = ce.capped(linear_head.logits_of(hidden[part], weight, bias), softcap) / temperature
        loss, lse[part] = ce.row_losses(z, labels[part], ignore_index, 0.0, 0.0)
        logp[part] = -loss
        p = torch.exp(z - lse[part, None])
        expected = torch.where(p > 0, p * z, 0.0).sum(-1)
        entropy[part] = (lse[part] - expected).where(labels[part] != ignore_index, 0.0)
    return logp, entropy, lse


def _backward(
    g_logp: Tensor, g_entropy: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, lse: Tensor,
    entropy: Tensor, temperature: float, softcap: float, ignore_index: int, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    gradients = linear_head.Gradients(hidden, weight, bias, need_hidden, need_weight)
    for part in linear_head.chunks(hidden.shape[0], weight.shape[0]):
        raw = ce.capped(linear_head.logits_of(hidden[part], weight, bias), softcap)
        log_p = raw / temperature - lse[part, None]
        p = torch.exp(log_p)
        kept = labels[part] != ignore_index
        d_z = -g_logp[part, None] * p
        d_z -= g_entropy[part, None] * torch.where(p > 0, p * (log_p + entropy[part, None]), 0.0)
        at = labels[part].where(kept, 0)[:, None]
        d_z = d_z.scatter_add(-1, at, g_logp[part, None].to(d_z.dtype))
        if softcap:
            d_z = d_z * (1 - (raw / softcap).square())
        gradients.add(part, torch.where(kept[:, None], d_z / temperature, 0.0))
    return gradients.take()


def _fake_forward(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, *_: Any
) -> tuple[Tensor, ...]:
    return tuple(hidden.new_empty(labels.shape, dtype=wide_dtype(hidden.dtype)) for _ in range(3))


def _fake_backward(
    g_logp: Tensor, g_entropy: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, lse: Tensor,
    entropy: Tensor, temperature: float, softcap: float, ignore_index: int, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return linear_head.fake_gradients(hidden, weight, bias, need_hidden, need_weight)


def _prepare(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    bias: Tensor | None = None,
    *,
    temperature: float = 1.0,
    softcap: float | None = None,
    ignore_index: int = -100,
) -> tuple[Any, ...]:
    if temperature <= 0:
        raise OpError(f"linear_log_prob: temperature={temperature} must be positive")
    rows, flat = linear_head.prepare("linear_log_prob", hidden, weight, labels, bias)
    return rows, weight, bias, flat, temperature, softcap or 0.0, ignore_index


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    def case(name: str, n: int, h: int, v: int, *options: float, bias: bool = False) -> Sample:
        hidden = shapes.normal((n, h), device, dtype, generator)
        weight = shapes.normal((v, h), device, dtype, generator, scale=h**-0.5 * 2)
        b = shapes.normal((v,), device, dtype, generator) if bias else None
        return Sample(
            name, (hidden, weight, b, shapes.labels_for(n, v, device, generator, -100), *options, -100)
        )

    yield case("1x1x2", 1, 1, 2, 1.0, 0.0)
    yield case("7x17x33", 7, 17, 33, 1.0, 0.0)
    yield case("warm", 9, 8, 101, 1.7, 0.0, bias=True)
    yield case("cold", 9, 8, 101, 0.3, 0.0)
    yield case("soft-capped", 9, 8, 101, 0.7, 4.0, bias=True)
    yield case("no tokens", 0, 8, 11, 1.0, 0.0)
    hidden, weight, b, labels, *rest = case("", 5, 8, 11, 1.0, 0.0).args
    yield Sample("all ignored", (hidden, weight, b, torch.full_like(labels, -100), *rest))


_OPERANDS = ("hidden", "weight", "bias")

OP = declare(
    Op(
        name="linear_log_prob",
        forward=Pass(
            "(Tensor hidden, Tensor weight, Tensor? bias, Tensor labels, float temperature, float softcap,"
            " int ignore_index) -> (Tensor logp, Tensor entropy, Tensor lse)",
            _forward,
            _fake_forward,
            operands=_OPERANDS,
        ),
        backward=Pass(
            "(Tensor g_logp, Tensor g_entropy, Tensor hidden, Tensor weight, Tensor? bias, Tensor labels, Tensor lse,"
            " Tensor entropy, float temperature, float softcap, int ignore_index, bool need_hidden, bool need_weight)"
            " -> (Tensor d_hidden, Tensor d_weight, Tensor d_bias)",
            _backward,
            _fake_backward,
            operands=_OPERANDS,
        ),
        grads={"hidden": "d_hidden", "weight": "d_weight", "bias": "d_bias"},
        needs={"need_weight": ("weight", "bias")},
        public=2,
        prepare=_prepare,
        samples=_samples,
        cost=lambda hidden, weight, *_: Cost(
            2 * hidden.shape[0] * weight.numel(), hidden.nbytes + weight.nbytes
        ),
        backward_cost=lambda g, h, hidden, weight, *_: Cost(
            6 * hidden.shape[0] * weight.numel(), 2 * hidden.nbytes + 3 * weight.nbytes
        ),
    )
)


def linear_log_prob(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    bias: Tensor | None = None,
    *,
    temperature: float = 1.0,
    softcap: float | None = None,
    ignore_index: int = -100,
) -> tuple[Tensor, Tensor]:
    """Log-probability of ``labels`` and entropy under ``softmax((hidden @ weight.T + bias) / temperature)``.

    Args:
        hidden: ``[..., hidden]``.
        weight: ``[classes, hidden]`` in ``hidden``'s dtype.
        labels: int64 ``[...]``; not shifted here.
        bias: ``[classes]`` or None.
        temperature: positive; divides the (soft-capped) logits.
        softcap: ``c tanh(z / c)`` before the temperature; None or 0 is off.
        ignore_index: rows with this label give 0 for both outputs and no gradient.

    Returns:
        ``(logp, entropy)`` in nats, float32 ``[...]``; both are differentiable.

    Raises:
        OpError: shapes, dtypes or options that do not fit.
        IndexError: a label outside ``[0, classes)`` (on the CPU).
    """
    args = _prepare(
        hidden, weight, labels, bias, temperature=temperature, softcap=softcap, ignore_index=ignore_index
    )
    logp, entropy = OP.apply(*args)
    return logp.reshape(labels.shape), entropy.reshape(labels.shape)
