"""cross_entropy against autograd in float64."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hetero.backends.cpu import loss as kernel

IGNORED = -100
OPTIONS = {
    "plain": (0.0, 0.0, 0.0),
    "smoothed": (0.1, 0.0, 0.0),
    "z-loss": (0.0, 1e-2, 0.0),
    "capped": (0.0, 0.0, 5.0),
    "everything": (0.2, 1e-3, 20.0),
}


def plain(labels: Tensor, smoothing: float, z_loss: float, softcap: float) -> Callable[[Tensor], Tensor]:
    """The loss of each row from F.cross_entropy, in the dtype of the logits."""

    def loss(logits: Tensor) -> Tensor:
        z = softcap * torch.tanh(logits / softcap) if softcap else logits
        rows = F.cross_entropy(z, labels, reduction="none", label_smoothing=smoothing, ignore_index=IGNORED)
        return rows + (z_loss * z.logsumexp(-1).square()).where(labels != IGNORED, 0.0)

    return loss


def labels_for(rows: int, vocab: int, generator: torch.Generator) -> Tensor:
    labels = torch.randint(0, vocab, (rows,), generator=generator)
    return labels.where(torch.rand(rows, generator=generator) > 0.3, IGNORED)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(
    ("rows", "vocab"), [(1, 1), (3, 7), (5, 17), (4, 1000), (3, 1023), (2, 2048), (2, 5003), (0, 9)]
)
def test_values(
    isa: str,
    draw: Callable[..., Tensor],
    generator: torch.Generator,
    check: Callable,
    options: tuple,
    rows: int,
    vocab: int,
) -> None:
    logits, labels, g = (
        draw(rows, vocab, scale=3),
        labels_for(rows, vocab, generator),
        torch.rand(rows, generator=generator),
    )
    loss, lse = kernel.cross_entropy(logits, labels, IGNORED, *options)
    d = kernel.cross_entropy_backward(g, logits, labels, lse, IGNORED, *options)
    check([loss, d], plain(labels, *options), [logits], [g], size=lse.abs().max().item() if rows else 1)
    assert not d[labels == IGNORED].any() and not loss[labels == IGNORED].any()


def test_growing_rows_rescale_the_sum(isa: str, check: Callable) -> None:
    """The maximum is passed on from block to block; here it rises in every one, and at the last element."""
    logits = torch.linspace(-80, 80, 4500)[None].repeat(2, 1)
    logits[1, -1] = 200.0
    labels, g = torch.tensor([4499, 3]), torch.tensor([1.0, -2.0])
    loss, lse = kernel.cross_entropy(logits, labels, IGNORED, 0.0, 0.0, 0.0)
    d = kernel.cross_entropy_backward(g, logits, labels, lse, IGNORED, 0.0, 0.0, 0.0)
    check([loss, d], plain(labels, 0.0, 0.0, 0.0), [logits], [g], size=200)


def test_huge_logits(isa: str, dtype: torch.dtype, generator: torch.Generator) -> None:
    """Neither exponential overflows; the loss keeps float32 accuracy relative to itself."""
    logits = (torch.randn(6, 1000, generator=generator) * 1e4).to(dtype)
    logits[0, 17] = 3e38
    labels = torch.randint(0, 1000, (6,), generator=generator)
    loss, lse = kernel.cross_entropy(logits, labels, IGNORED, 0.0, 0.0, 0.0)
    exact = F.cross_entropy(logits.double(), labels, reduction="none")
    torch.testing.assert_close(loss.double(), exact, rtol=1e-6, atol=1e-6)
    d = kernel.cross_entropy_backward(torch.ones(6), logits, labels, lse, IGNORED, 0.0, 0.0, 0.0)
    assert d.isfinite().all() and d.abs().max() <= 1.01


def test_masked_classes_and_rows_that_are_not_finite(isa: str, dtype: torch.dtype) -> None:
    inf = float("inf")
    logits = torch.randn(6, 40).to(dtype)
    logits[0, 5:] = -inf  # some classes masked
    logits[1] = -inf  # nothing left
    logits[2, 39] = float("nan")
    logits[3, 0] = inf
    logits[4, 7] = -inf  # the label itself
    labels = torch.tensor([2, 3, 4, 5, 7, 8])
    loss, lse = kernel.cross_entropy(logits, labels, IGNORED, 0.0, 0.0, 0.0)
    expected = F.cross_entropy(logits.float(), labels, reduction="none")
    torch.testing.assert_close(loss, expected, equal_nan=True)
    d = kernel.cross_entropy_backward(torch.ones(6), logits, labels, lse, IGNORED, 0.0, 0.0, 0.0)
    assert d[0, 5:].eq(0).all() and d[0].isfinite().all()
    assert d[1].isnan().all() and d[2].isnan().all()
    assert d[5].isfinite().all()


def test_ignored_rows_may_hold_anything(isa: str, dtype: torch.dtype) -> None:
    logits = torch.full((3, 20), float("nan"), dtype=dtype)
    labels = torch.full((3,), IGNORED)
    loss, lse = kernel.cross_entropy(logits, labels, IGNORED, 0.1, 1e-3, 0.0)
    d = kernel.cross_entropy_backward(
        torch.full((3,), float("inf")), logits, labels, lse, IGNORED, 0.1, 1e-3, 0.0
    )
    assert loss.eq(0).all() and lse.eq(0).all() and d.eq(0).all()


def test_layouts(isa: str, draw: Callable[..., Tensor], generator: torch.Generator) -> None:
    logits, labels = draw(5, 40), labels_for(5, 40, generator)
    g = torch.rand(5, generator=generator)
    loss, lse = kernel.cross_entropy(logits, labels, IGNORED, 0.0, 0.0, 0.0)
    d = kernel.cross_entropy_backward(g, logits, labels, lse, IGNORED, 0.0, 0.0, 0.0)
    gap, odd = torch.full((5, 51), float("nan"), dtype=logits.dtype), torch.zeros(201, dtype=logits.dtype)
    gap[:, 3:43], odd[1:] = logits, logits.flatten()
    for other in (gap[:, 3:43], odd[1:].view(5, 40), logits.t().contiguous().t()):
        assert torch.equal(kernel.cross_entropy(other, labels, IGNORED, 0.0, 0.0, 0.0)[0], loss)
        assert torch.equal(kernel.cross_entropy_backward(g, other, labels, lse, IGNORED, 0.0, 0.0, 0.0), d)
    ones = torch.ones(()).expand(5)
    every_second = torch.stack([labels, labels], 1)[:, 0]
    a = kernel.cross_entropy_backward(ones, logits, every_second, lse, IGNORED, 0.0, 0.0, 0.0)
    assert torch.equal(
        a, kernel.cross_entropy_backward(torch.ones(5), logits, labels, lse, IGNORED, 0.0, 0.0, 0.0)
    )


@pytest.mark.parametrize("bad", [-1, 12, -101, 2**40])
def test_a_label_out_of_range_is_named(kernels: ModuleType, bad: int) -> None:
    labels = torch.tensor([0, IGNORED, bad, 11])
    with pytest.raises(IndexError, match=rf"row 2: label {bad} is outside \[0, 12\)"):
        kernel.cross_entropy(torch.zeros(4, 12), labels, IGNORED, 0.0, 0.0, 0.0)
    with pytest.raises(IndexError, match="row 2"):
        kernel.cross_entropy_backward(
            torch.ones(4), torch.zeros(4, 12), labels, torch.zeros(4), IGNORED, 0.0, 0.0, 0.0
        )


def test_no_classes(kernels: ModuleType) -> None:
    labels = torch.full((3,), IGNORED)
    assert kernel.cross_entropy(torch.zeros(3, 0), labels, IGNORED, 0.0, 0.0, 0.0)[0].eq(0).all()
    with pytest.raises(IndexError):
        kernel.cross_entropy(torch.zeros(3, 0), torch.zeros(3, dtype=torch.int64), IGNORED, 0.0, 0.0, 0.0)
