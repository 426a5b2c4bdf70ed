"""Rules that objectives and sums must keep, beside the golden numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hetero.train.policy import aggregation, divergence, objectives


@pytest.fixture
def batch(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Log-ratios, advantages and a mask of 6 sequences."""
    lengths = torch.tensor([7, 1, 4, 7, 0, 3])
    mask = (torch.arange(7) < lengths[:, None]).float()
    return torch.randn(6, 7, generator=generator), torch.randn(6, 1, generator=generator), mask


@pytest.mark.parametrize("kind", [k for k in aggregation.KINDS if k != "bnpo"])
def test_shares_add_up_however_the_window_is_split(kind: str, batch: tuple[Tensor, Tensor, Tensor]) -> None:
    losses, _, mask = batch
    whole = aggregation.total(kind, losses, mask, 9)
    parts = sum(aggregation.total(kind, losses[a:b], mask[a:b], 9) for a, b in ((0, 1), (1, 4), (4, 6)))
    torch.testing.assert_close(parts, whole)


def test_masked_tokens_do_not_matter(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    losses, _, mask = batch
    for kind in aggregation.KINDS:
        other = torch.where(mask.bool(), losses, 1e6)
        torch.testing.assert_close(
            aggregation.total(kind, other, mask, 9), aggregation.total(kind, losses, mask, 9)
        )
    sequence = objectives.log_weights(losses, mask, "sequence")
    torch.testing.assert_close(
        sequence, objectives.log_weights(torch.where(mask.bool(), losses, 50.0), mask, "sequence")
    )
    assert sequence[4] == 0  # nothing sampled: a weight of 1


def test_unknown_names_are_errors(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    losses, _, mask = batch
    with pytest.raises(ValueError, match="aggregation 'mean'"):
        aggregation.total("mean", losses, mask, 9)
    with pytest.raises(ValueError, match="importance_sampling_level 'word'"):
        objectives.log_weights(losses, mask, "word")


def test_clipping_stops_the_gradient_only_outwards() -> None:
    """Where the ratio has left the trust region in the direction of the advantage, and nowhere else."""
    ratios = torch.tensor([0.5, 1.0, 1.5, 0.5, 1.0, 1.5], requires_grad=True)
    signs = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    objectives.clip(ratios, signs, 0.2, 0.2).sum().backward()
    assert ratios.grad is not None
    assert ratios.grad.tolist() == [-1, -1, 0, 0, 1, 1]


def test_dual_clip_bounds_the_loss_of_bad_tokens() -> None:
    ratios = torch.tensor([1.0, 5.0, 50.0])
    found = objectives.clip(ratios, torch.full((3,), -2.0), 0.2, 0.2, dual=3.0)
    assert found.tolist() == [2.0, 6.0, 6.0]
    delta = objectives.clip(ratios, torch.full((3,), -2.0), 0.2, 0.2, delta=4.0)
    assert delta.tolist() == [2.0, 8.0, 8.0]


def test_on_policy_every_objective_has_the_policy_gradient(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    """With log p = log p_old the gradient is ``-A`` for each token, whatever the objective does further away."""
    noise, advantages, mask = batch
    found = {}
    for name in ("clip", "cispo", "sapo"):
        log_p = noise.clone().requires_grad_()
        weights = objectives.log_weights(log_p - noise, mask).exp()
        loss = {
            "clip": lambda w, p: objectives.clip(w, advantages, 0.2, 0.2),
            "cispo": lambda w, p: objectives.cispo(p, w, advantages, 5.0),
            "sapo": lambda w, p: objectives.sapo(w, advantages),
        }[name](weights, log_p)
        (found[name],) = torch.autograd.grad((loss * mask).sum(), log_p)
    for gradient in found.values():
        torch.testing.assert_close(gradient, -advantages * mask)


def test_estimators_of_kl_agree_with_the_sum_over_the_vocabulary(generator: torch.Generator) -> None:
    p, q = (torch.randn(5, generator=generator, dtype=torch.float64).log_softmax(0) for _ in range(2))
    exact = (p.exp() * (p - q)).sum()
    for name in ("k1", "k3"):  # unbiased: their mean over the policy is the divergence itself
        torch.testing.assert_close((p.exp() * divergence.ESTIMATORS[name](p, q)).sum(), exact)
    assert (divergence.k3(p, q) >= 0).all() and (divergence.k2(p, q) >= 0).all()


def test_gradient_of_k2_is_that_of_the_divergence(generator: torch.Generator) -> None:
    logits = torch.randn(5, generator=generator, dtype=torch.float64, requires_grad=True)
    q = torch.randn(5, generator=generator, dtype=torch.float64).log_softmax(0)
    p = logits.log_softmax(0)
    (exact,) = torch.autograd.grad((p.exp() * (p - q)).sum(), logits, retain_graph=True)
    (found,) = torch.autograd.grad((p.detach().exp() * divergence.k2(p, q)).sum(), logits, retain_graph=True)
    torch.testing.assert_close(found, exact)
    (nothing,) = torch.autograd.grad((p.detach().exp() * divergence.k1(p, q)).sum(), logits)
    torch.testing.assert_close(nothing, torch.zeros_like(nothing))


def test_high_entropy_keeps_the_asked_share(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    entropy, _, mask = batch
    kept = objectives.high_entropy(entropy, mask, 0.25)
    assert kept.sum() == pytest.approx(0.25 * float(mask.sum()), abs=1)
    assert (kept <= mask).all()
    assert entropy[kept.bool()].min() >= entropy[(mask - kept).bool()].max()
    assert (objectives.high_entropy(entropy, mask, 1.0) == mask).all()
    assert (objectives.high_entropy(entropy, torch.zeros_like(mask), 0.5) == 0).all()
