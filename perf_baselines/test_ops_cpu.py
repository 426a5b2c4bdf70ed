"""The CPU kernels beside plain torch, torch.compile (``--with-compile``) and the machine's copy bandwidth.

Every round measures all of them once, so that a ratio compares what ran within the same moment; times alone say little
on a shared machine. Each case goes through the public function of ``hetero.ops``, dispatch and autograd included.
glibc gives blocks over 32 MiB back and faults them in again at each call, which costs more than the arithmetic; to
leave that out for everyone, run with ``MALLOC_MMAP_THRESHOLD_=17179869184 MALLOC_TRIM_THRESHOLD_=17179869184``.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import hetero.ops as ops
from hetero.ops import registry

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
COPY_BYTES = 64 << 20


@dataclass
class Case:
    """``ours`` and ``eager`` do the same work; ``bytes`` is what must be read and written at least."""

    ours: Callable[[], Any]
    eager: Callable[[], Any]
    bytes: float


def differentiated(fn: Callable[..., Any], inputs: list[Tensor], backward: bool) -> Callable[[], Any]:
    """Calls ``fn(*inputs)``, and the backward pass of its outputs with given gradients."""
    if not backward:
        return lambda: torch.no_grad()(fn)(*inputs)
    leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in inputs]
    wanted = [t for t in leaves if t.requires_grad]
    upstream: list[Tensor] = []

    def run() -> None:
        out = fn(*leaves)
        out = [out] if isinstance(out, Tensor) else list(out)
        upstream.extend(torch.ones_like(o) for o in out[len(upstream) :])
        torch.autograd.grad(out, wanted, upstream)

    return run


def rms_norm(dtype: torch.dtype, backward: bool) -> Case:
    x, w = torch.randn(2048, 2048).to(dtype), torch.randn(2048).to(dtype)
    return Case(
        differentiated(lambda x, w: ops.rms_norm(x, w, 1e-6), [x, w], backward),
        differentiated(lambda x, w: F.rms_norm(x, (2048,), w, 1e-6), [x, w], backward),
        (5 if backward else 2) * x.nbytes,
    )


def fused_add_rms_norm(dtype: torch.dtype, backward: bool) -> Case:
    x, r, w = (
        torch.randn(2048, 2048).to(dtype),
        torch.randn(2048, 2048).to(dtype),
        torch.randn(2048).to(dtype),
    )

    def eager(x: Tensor, r: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        s = x + r
        return F.rms_norm(s, (2048,), w, 1e-6), s

    return Case(
        differentiated(lambda x, r, w: ops.fused_add_rms_norm(x, r, w, 1e-6), [x, r, w], backward),
        differentiated(eager, [x, r, w], backward),
        (8 if backward else 4) * x.nbytes,
    )


def layer_norm(dtype: torch.dtype, backward: bool) -> Case:
    x, w, b = torch.randn(2048, 2048).to(dtype), torch.randn(2048).to(dtype), torch.randn(2048).to(dtype)
    return Case(
        differentiated(lambda x, w, b: ops.layer_norm(x, w, b, 1e-5), [x, w, b], backward),
        differentiated(lambda x, w, b: F.layer_norm(x, (2048,), w, b, 1e-5), [x, w, b], backward),
        (5 if backward else 2) * x.nbytes,
    )


def gated(name: str, act: Callable[[Tensor], Tensor], ours: Callable[..., Tensor]) -> Callable[..., Case]:
    def case(dtype: torch.dtype, backward: bool) -> Case:
        gate, up = torch.randn(2048, 5504).to(dtype), torch.randn(2048, 5504).to(dtype)
        return Case(
            differentiated(ours, [gate, up], backward),
            differentiated(lambda a, b: act(a) * b, [gate, up], backward),
            (8 if backward else 3) * gate.nbytes,
        )

    case.__name__ = name
    return case


def rope(dtype: torch.dtype, backward: bool) -> Case:
    q, k = torch.randn(1, 2048, 16, 128).to(dtype), torch.randn(1, 2048, 16, 128).to(dtype)
    angle = torch.arange(2048.0)[:, None] * 1e4 ** (-torch.arange(0, 128, 2) / 128)
    cos, sin = (t.repeat(1, 2)[None].to(dtype) for t in (angle.cos(), angle.sin()))

    def rotate_half(x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)

    def eager(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        c, s = cos[:, :, None], sin[:, :, None]
        return q * c + rotate_half(q) * s, k * c + rotate_half(k) * s

    return Case(
        differentiated(lambda q, k: ops.rope(q, k, cos, sin, unsqueeze_dim=2), [q, k], backward),
        differentiated(eager, [q, k], backward),
        (4 if backward else 2) * (q.nbytes + k.nbytes),
    )


def cross_entropy(rows: int, vocab: int) -> Callable[..., Case]:
    def case(dtype: torch.dtype, backward: bool) -> Case:
        logits, labels = torch.randn(rows, vocab).to(dtype), torch.randint(0, vocab, (rows,))
        return Case(
            differentiated(lambda x: ops.cross_entropy(x, labels), [logits], backward),
            differentiated(lambda x: F.cross_entropy(x, labels), [logits], backward),
            (3 if backward else 1) * logits.nbytes,
        )

    case.__name__ = f"cross_entropy {rows}x{vocab}"
    return case


def fused_linear_cross_entropy(dtype: torch.dtype, backward: bool) -> Case:
    """In bfloat16, plain torch multiplies in float32: on CPUs without bfloat16 units it is far slower otherwise."""
    hidden, weight = torch.randn(512, 576).to(dtype), (torch.randn(49152, 576) / 24).to(dtype)
    labels = torch.randint(0, 49152, (512,))
    return Case(
        differentiated(lambda h, w: ops.fused_linear_cross_entropy(h, w, labels), [hidden, weight], backward),
        differentiated(
            lambda h, w: F.cross_entropy(F.linear(h.float(), w.float()), labels), [hidden, weight], backward
        ),
        (2 if backward else 1) * (hidden.nbytes + weight.nbytes),
    )


#: 12 million parameters in 61 tensors.
SIZES = [(2048, 576), (576, 576), *[(1536, 576)] * 10, *[(576,)] * 49]


def adamw(dtype: torch.dtype, backward: bool) -> Case:
    """bfloat16 without masters, which is what torch's fused step does."""
    params, grads = ([torch.randn(s).to(dtype) for s in SIZES] for _ in range(2))
    m, v = ([torch.zeros(s) for s in SIZES] for _ in range(2))
    theirs = [torch.nn.Parameter(p.clone()) for p in params]
    for p, g in zip(theirs, grads):
        p.grad = g
    optimizer = torch.optim.AdamW(theirs, lr=1e-4, fused=True)
    size = sum(p.nbytes for p in params)
    return Case(
        lambda: ops.adamw(params, grads, m, v, lr=1e-4, weight_decay=0.01, step=5),
        optimizer.step,
        3 * size + 4 * sum(t.nbytes for t in m),
    )


def clip_grad_norm(dtype: torch.dtype, backward: bool) -> Case:
    grads = [torch.randn(s).to(dtype) for s in SIZES]
    theirs = [torch.nn.Parameter(g.clone()) for g in grads]
    for p, g in zip(theirs, grads):
        p.grad = g.clone()
    # Small enough to scale every time, large enough never to reach zero.
    return Case(
        lambda: ops.clip_grad_norm(grads, 1.0),
        lambda: torch.nn.utils.clip_grad_norm_(theirs, 1.0),
        3 * sum(g.nbytes for g in grads),
    )


DIFFERENTIABLE = [
    rms_norm,
    fused_add_rms_norm,
    layer_norm,
    gated("swiglu", F.silu, ops.swiglu),
    gated("geglu", F.gelu, ops.geglu),
    rope,
    cross_entropy(2048, 32000),
    cross_entropy(1024, 151936),
    fused_linear_cross_entropy,
]
CASES = [(make, backward) for make in DIFFERENTIABLE for backward in (False, True)]
CASES += [(adamw, False), (clip_grad_norm, False)]


def name_of(case: tuple[Callable[..., Case], bool]) -> str:
    return case[0].__name__ + (" fwd+bwd" if case[1] else "")


def timed(fn: Callable[[], Any]) -> float:
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_op(
    benchmark: Any,
    request: pytest.FixtureRequest,
    report: dict[str, float],
    case: tuple[Callable[..., Case], bool],
    dtype: str,
) -> None:
    """The time of each case, and its ratio to what else ran in the same rounds."""
    make, backward = case
    benchmark.group = f"{name_of(case)} {dtype}"
    if not any(i.name == "cpp" for i in registry.impls("rms_norm")):
        pytest.skip("the CPU kernels are not built")
    torch.manual_seed(0)
    with ops.use("*=cpp"):
        work = make(DTYPES[dtype], backward)
        peers = {"eager": work.eager}
        if request.config.getoption("--with-compile"):
            peers["compile"] = torch.compile(work.eager)
        source, target = (torch.zeros(COPY_BYTES // 4) for _ in range(2))
        peers["copy"] = lambda: target.copy_(source)
        for fn in (work.ours, *peers.values()):
            fn()
        times: dict[str, list[float]] = {name: [] for name in (*peers, "ours")}

        def others() -> None:
            for name in random.sample(list(peers), len(peers)):
                times[name].append(timed(peers[name]))

        def ours() -> None:
            times["ours"].append(timed(work.ours))

        rounds = max(5, min(25, int(3 / (timed(work.ours) + timed(work.eager)))))
        benchmark.pedantic(ours, setup=others, rounds=rounds, warmup_rounds=1)
    mine = statistics.median(times["ours"])
    bandwidth = statistics.median(2 * COPY_BYTES / t for t in times["copy"])
    report.update({"ms": mine * 1e3, "limit": work.bytes / bandwidth / mine, "GB/s": work.bytes / mine / 1e9})
    for name in peers.keys() - {"copy"}:
        report[name] = statistics.median(t / o for t, o in zip(times[name], times["ours"]))
    benchmark.extra_info.update({name: round(value, 4) for name, value in report.items()})
