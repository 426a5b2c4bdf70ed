"""fused_linear_cross_entropy and linear_log_prob against autograd in float64."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hetero.backends.cpu import linear_head
from hetero.backends.cpu import linear_loss as kernel

IGNORED = -100


@pytest.fixture(params=["one chunk", "chunks", "tiles"])
def chunking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows at once; a few rows at a time; and bfloat16 weights widened a few rows at a time as well."""
    if request.param != "one chunk":
        monkeypatch.setattr(linear_head, "chunk_rows", lambda rows, vocab: min(max(rows, 1), 5))
    if request.param == "tiles":
        monkeypatch.setattr(linear_head, "TILE_BYTES", 4 * 8 * 7)


@pytest.fixture(params=[False, True], ids=["", "native bf16"])
def native(request: pytest.FixtureRequest, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Also as on a CPU that multiplies bfloat16 natively: products in bfloat16."""
    if request.param and dtype == torch.float32:
        pytest.skip("bfloat16 only")
    monkeypatch.setattr(linear_head, "native_bf16", lambda: request.param)
    return request.param


class Case:
    def __init__(
        self, draw: Callable[..., Tensor], generator: torch.Generator, n: int, h: int, v: int, bias: bool
    ) -> None:
        self.hidden, self.weight = draw(n, h), draw(v, h, scale=2 * h**-0.5)
        self.bias = draw(v) if bias else None
        self.inputs = [self.hidden, self.weight, *([self.bias] if self.bias is not None else [])]
        labels = torch.randint(0, v, (n,), generator=generator)
        self.labels = labels.where(torch.rand(n, generator=generator) > 0.3, IGNORED)
        self.kept = self.labels != IGNORED
        #: Largest hidden or logit: what one rounding of a logit moves the results by.
        z = self.z(self.hidden, self.weight, self.bias, 0.0)
        self.size = max(t.float().abs().max().item() for t in (self.hidden, z)) ** 2

    def z(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, softcap: float) -> Tensor:
        z = F.linear(hidden, weight, bias)
        return softcap * torch.tanh(z / softcap) if softcap else z

    def cross_entropy(self, smoothing: float, z_loss: float, softcap: float) -> Callable[..., Tensor]:
        def fn(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
            z = self.z(hidden, weight, bias, softcap)
            loss = F.cross_entropy(
                z, self.labels, reduction="none", label_smoothing=smoothing, ignore_index=IGNORED
            )
            return loss + (z_loss * z.logsumexp(-1).square()).where(self.kept, 0.0)

        return fn

    def log_prob(self, temperature: float, softcap: float) -> Callable[..., tuple[Tensor, Tensor]]:
        def fn(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
            logp = torch.log_softmax(self.z(hidden, weight, bias, softcap) / temperature, -1)
            picked = logp.gather(-1, self.labels.where(self.kept, 0)[:, None])[:, 0]
            return picked.where(self.kept, 0.0), -(logp.exp() * logp).sum(-1).where(self.kept, 0.0)

        return fn


def unit(native: bool) -> torch.dtype:
    """What the logits are rounded to."""
    return torch.bfloat16 if native else torch.float32


SHAPES = [(1, 1, 2), (7, 17, 33), (13, 8, 101), (9, 8, 1030)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("options", "bias"), [((0.0, 0.0, 0.0), False), ((0.1, 1e-3, 5.0), True)], ids=["plain", "all"]
)
def test_cross_entropy(
    isa: str, chunking: None, native: bool, draw: Callable[..., Tensor], generator: torch.Generator, check: Callable,
    shape: tuple, options: tuple, bias: bool,
) -> None:  # fmt: skip
    c = Case(draw, generator, *shape, bias=bias)
    scale = torch.rand(shape[0], generator=generator)
    loss, lse, *now = kernel.fused_linear_cross_entropy(
        c.hidden, c.weight, c.bias, c.labels, scale, IGNORED, *options, True, True
    )
    loss_only, lse_only, *none = kernel.fused_linear_cross_entropy(
        c.hidden, c.weight, c.bias, c.labels, None, IGNORED, *options, True, True
    )
    later = kernel.fused_linear_cross_entropy_backward(
        scale, c.hidden, c.weight, c.bias, c.labels, lse, IGNORED, *options, True, True
    )
    used = len(c.inputs)
    check([loss, *now[:used]], c.cross_entropy(*options), c.inputs, [scale], size=c.size, unit=unit(native))
    check([loss, *later[:used]], c.cross_entropy(*options), c.inputs, [scale], size=c.size, unit=unit(native))
    assert torch.equal(loss, loss_only) and torch.equal(lse, lse_only)
    assert all(t.numel() == 0 for t in none)
    assert not now[0][~c.kept].any() and not loss[~c.kept].any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("temperature", "softcap", "bias"), [(1.0, 0.0, False), (0.6, 4.0, True)], ids=["plain", "all"]
)
def test_log_prob(
    isa: str, chunking: None, native: bool, draw: Callable[..., Tensor], generator: torch.Generator, check: Callable,
    shape: tuple, temperature: float, softcap: float, bias: bool,
) -> None:  # fmt: skip
    c = Case(draw, generator, *shape, bias=bias)
    g_logp, g_entropy = torch.randn(shape[0], generator=generator), torch.randn(shape[0], generator=generator)
    logp, entropy, lse = kernel.linear_log_prob(
        c.hidden, c.weight, c.bias, c.labels, temperature, softcap, IGNORED
    )
    gradients = kernel.linear_log_prob_backward(
        g_logp,
        g_entropy,
        c.hidden,
        c.weight,
        c.bias,
        c.labels,
        lse,
        entropy,
        temperature,
        softcap,
        IGNORED,
        True,
        True,
    )
    fn = c.log_prob(temperature, softcap)
    check(
        [logp, entropy, *gradients[: len(c.inputs)]],
        fn,
        c.inputs,
        [g_logp, g_entropy],
        size=c.size / temperature,
        unit=unit(native),
    )


def test_only_what_is_needed(
    isa: str, dtype: torch.dtype, draw: Callable[..., Tensor], generator: torch.Generator
) -> None:
    c = Case(draw, generator, 6, 8, 20, bias=True)
    args = (c.hidden, c.weight, c.bias, c.labels, torch.ones(6), IGNORED, 0.0, 0.0, 0.0)
    full = kernel.fused_linear_cross_entropy(*args, True, True)
    hidden_only = kernel.fused_linear_cross_entropy(*args, True, False)
    weight_only = kernel.fused_linear_cross_entropy(*args, False, True)
    neither = kernel.fused_linear_cross_entropy(*args, False, False)
    assert torch.equal(hidden_only[2], full[2])
    assert all(map(torch.equal, weight_only[3:], full[3:]))
    assert hidden_only[3].numel() == hidden_only[4].numel() == weight_only[2].numel() == 0
    assert torch.equal(neither[0], full[0])


@pytest.mark.parametrize("n", [0, 6], ids=["no tokens", "all ignored"])
def test_nothing_to_do(kernels: ModuleType, dtype: torch.dtype, draw: Callable[..., Tensor], n: int) -> None:
    hidden, weight, bias = draw(n, 8), draw(20, 8), draw(20)
    hidden.fill_(float("nan"))
    labels = torch.full((n,), IGNORED)
    out = kernel.fused_linear_cross_entropy(
        hidden, weight, bias, labels, torch.ones(n), IGNORED, 0.1, 1e-3, 0.0, True, True
    )
    assert [tuple(t.shape) for t in out] == [(n,), (n,), (n, 8), (20, 8), (20,)]
    assert all(t.eq(0).all() for t in out)
    logp, entropy, lse = kernel.linear_log_prob(hidden, weight, bias, labels, 1.0, 0.0, IGNORED)
    back = kernel.linear_log_prob_backward(
        logp, entropy, hidden, weight, bias, labels, lse, entropy, 1.0, 0.0, IGNORED, True, True
    )
    assert all(t.eq(0).all() for t in (logp, entropy, *back))


def test_strided_operands(isa: str, draw: Callable[..., Tensor], generator: torch.Generator) -> None:
    c = Case(draw, generator, 6, 8, 20, bias=False)
    options = (torch.ones(6), IGNORED, 0.0, 0.0, 0.0, True, True)
    want = kernel.fused_linear_cross_entropy(c.hidden, c.weight, None, c.labels, *options)
    hidden = torch.cat([c.hidden, c.hidden], 1)[:, :8]
    weight = c.weight.t().contiguous().t()
    labels = torch.stack([c.labels, c.labels], 1)[:, 0]
    got = kernel.fused_linear_cross_entropy(hidden, weight, None, labels, *options)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b)


def test_a_label_out_of_range_is_named_by_its_own_row(kernels: ModuleType) -> None:
    """Rows before it are ignored and left out; the message still counts them."""
    labels = torch.tensor([IGNORED, IGNORED, 3, 20])
    args = (torch.zeros(4, 8), torch.zeros(20, 8), None, labels)
    with pytest.raises(IndexError, match="row 3: label 20"):
        kernel.fused_linear_cross_entropy(*args, None, IGNORED, 0.0, 0.0, 0.0, True, True)
    with pytest.raises(IndexError, match="row 3: label 20"):
        kernel.linear_log_prob(*args, 1.0, 0.0, IGNORED)


def test_chunks_bound_the_logits() -> None:
    for rows, vocab in ((1, 10), (2048, 32000), (2048, 151936), (100, 50), (4096, 1)):
        size = linear_head.chunk_rows(rows, vocab)
        assert 1 <= size <= rows
        assert size <= linear_head.CHUNK_ROWS or size * vocab * 4 <= linear_head.CHUNK_BYTES
    assert linear_head.chunk_rows(0, 10) == 1


def test_logits_are_never_held_whole(kernels: ModuleType) -> None:
    """The largest tensor of the forward pass with gradients is one chunk of logits."""
    n, h, v = 1500, 8, 20000
    hidden, weight = torch.randn(n, h), torch.randn(v, h)
    labels = torch.randint(0, v, (n,))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        kernel.fused_linear_cross_entropy(
            hidden, weight, None, labels, torch.ones(n), IGNORED, 0.0, 0.0, 0.0, True, True
        )
    largest = max(e.self_cpu_memory_usage for e in profile.events())
    assert largest == linear_head.chunk_rows(n, v) * v * 4
    assert largest < n * v * 4 / 2
