"""Losses of pairs: the DPO family, and its relatives without a reference.

Log-probabilities of answers are sums over their tokens. With ``r_w`` the policy's minus the reference's of the
chosen answer and ``r_l`` of the rejected one, ``s`` their scores under an f-divergence (``s = r`` for reverse KL),
``d = s_w - s_l``, ``b`` = beta and ``e`` = label_smoothing, ``|y|`` the tokens of an answer:

============  ==========================================================================================
sigmoid       ``-logsig(b d)`` (DPO, Rafailov et al. 2023, arXiv 2305.18290); with e > 0 conservative DPO:
              ``-(1 - e) logsig(b d) - e logsig(-b d)`` (Mitchell 2023)
sigmoid_norm  ``-logsig(b (s_w/|y_w| - s_l/|y_l|))`` (Tulu 3, arXiv 2411.15124)
hinge         ``relu(1 - b d)`` (SLiC-HF, arXiv 2305.10425; RSO, arXiv 2309.06657)
ipo           ``(s_w/|y_w| - s_l/|y_l| - 1/(2b))^2`` (arXiv 2310.12036, averaged over tokens)
robust        ``(-(1 - e) logsig(b d) + e logsig(-b d)) / (1 - 2e)`` (arXiv 2403.00409)
exo_pair      ``KL(p || q)`` of ``p = (sig(b d), sig(-b d))`` and ``q = (1 - e, e)`` (arXiv 2402.00856, eq. 16)
nca_pair      ``-logsig(b r_w) - logsig(-b r_w)/2 - logsig(-b r_l)/2`` (arXiv 2402.05369)
bco_pair      ``-logsig(b r_w) - logsig(-b r_l)`` (BCO, arXiv 2404.04656, without its running mean)
sppo_hard     ``(r_w - 1/(2b))^2 + (r_l + 1/(2b))^2`` (arXiv 2405.00675, eq. 4.7 with certain wins)
aot           as cDPO of ``D = sorted(log p_w - log p_l) - sorted(ref_w - ref_l)`` (arXiv 2406.05882)
aot_unpaired  as cDPO of ``D = sorted(r_w) - sorted(r_l)`` (the same)
apo_zero      ``1 - sig(b r_w) + sig(b r_l)`` (arXiv 2408.06266, eq. 7)
apo_down      ``sig(b r_w) + 1 - sig(b (r_w - r_l))`` (the same, eq. 8)
discopop      ``m exp(-b d) + (1 - m) (-logsig(b d))``, ``m = sig(b d / tau)`` (arXiv 2406.08414, eq. 5)
------------  ------------------------------------------------------------------------------------------
cpo           ``-(1 - e) logsig(b D) - e logsig(-b D)``, ``D = log p_w - log p_l`` (arXiv 2401.08417, eq. 3)
simpo         the same of ``b D = b (log p_w/|y_w| - log p_l/|y_l|) - gamma`` (arXiv 2405.14734)
orpo          ``-b logsig(log odds_w - log odds_l)``, odds of mean probabilities (arXiv 2403.07691)
============  ==========================================================================================

Those below the line have no reference. ``sft``, the mean negative log-likelihood of the chosen tokens, is a term over
tokens and not over pairs: the algorithm adds it (RPO is sigmoid + sft, CPO is cpo + sft, ORPO is orpo + sft).
``aot`` and ``aot_unpaired`` compare distributions: their value is that of the pairs which are given together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

#: exp of more than this is not float32 any more.
_LARGEST = 80.0


@dataclass(frozen=True)
class Settings:
    """What the losses have to be told; the names are those of the recipe."""

    beta: float = 0.1
    label_smoothing: float = 0.0
    f_divergence_type: str = "reverse_kl"
    f_alpha_divergence_coef: float = 0.5
    discopop_tau: float = 0.05
    simpo_gamma: float = 0.5


@dataclass(frozen=True)
class Pairs:
    """Float32 [n] each: log-probabilities of both answers by policy and reference, and their tokens.

    The reference's are zeros where the loss has none.
    """

    chosen: Tensor
    rejected: Tensor
    ref_chosen: Tensor
    ref_rejected: Tensor
    chosen_tokens: Tensor
    rejected_tokens: Tensor

    @property
    def ratios(self) -> tuple[Tensor, Tensor]:
        """``r_w`` and ``r_l``."""
        return self.chosen - self.ref_chosen, self.rejected - self.ref_rejected

    def per_token(self, chosen: Tensor, rejected: Tensor) -> tuple[Tensor, Tensor]:
        """Both divided by the tokens of their answers; an empty answer counts as one."""
        return chosen / self.chosen_tokens.clamp(min=1), rejected / self.rejected_tokens.clamp(min=1)


def score(ratio: Tensor, options: Settings) -> Tensor:
    """``f'(exp(ratio))`` of the divergence between policy and reference (f-DPO, arXiv 2309.16240).

    reverse_kl ``r``; forward_kl ``1 - exp(-r)``; js_divergence ``log 2 + logsig(r)``; alpha_divergence
    ``(exp((a - 1) r) - 1) / (a - 1)``. Exponents are capped where float32 ends.
    """
    kind, power = options.f_divergence_type, options.f_alpha_divergence_coef - 1
    if kind == "forward_kl":
        return 1 - torch.exp((-ratio).clamp(max=_LARGEST))
    if kind == "js_divergence":
        return math.log(2) + logsigmoid(ratio)
    if kind == "alpha_divergence" and abs(power) >= 1e-6:
        return torch.expm1((power * ratio).clamp(max=_LARGEST)) / power
    return ratio


def _difference(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = pairs.ratios
    return score(chosen, options) - score(rejected, options)


def _difference_per_token(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = pairs.ratios
    chosen, rejected = pairs.per_token(score(chosen, options), score(rejected, options))
    return chosen - rejected


def _smoothed(logits: Tensor, options: Settings) -> Tensor:
    e = options.label_smoothing
    loss = -(1 - e) * logsigmoid(logits)
    return loss - e * logsigmoid(-logits) if e else loss


def sigmoid(pairs: Pairs, options: Settings) -> Tensor:
    return _smoothed(options.beta * _difference(pairs, options), options)


def sigmoid_norm(pairs: Pairs, options: Settings) -> Tensor:
    return -logsigmoid(options.beta * _difference_per_token(pairs, options))


def hinge(pairs: Pairs, options: Settings) -> Tensor:
    return torch.relu(1 - options.beta * _difference(pairs, options))


def ipo(pairs: Pairs, options: Settings) -> Tensor:
    return (_difference_per_token(pairs, options) - 1 / (2 * options.beta)).square()


def robust(pairs: Pairs, options: Settings) -> Tensor:
    logits, e = options.beta * _difference(pairs, options), options.label_smoothing
    return (-(1 - e) * logsigmoid(logits) + e * logsigmoid(-logits)) / (1 - 2 * e)


def exo_pair(pairs: Pairs, options: Settings) -> Tensor:
    logits, e = options.beta * _difference(pairs, options), options.label_smoothing
    won = torch.sigmoid(logits) * (logsigmoid(logits) - math.log1p(-e))
    return won + torch.sigmoid(-logits) * (logsigmoid(-logits) - math.log(e))


def nca_pair(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = (options.beta * ratio for ratio in pairs.ratios)
    return -logsigmoid(chosen) - 0.5 * logsigmoid(-chosen) - 0.5 * logsigmoid(-rejected)


def bco_pair(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = (options.beta * ratio for ratio in pairs.ratios)
    return -logsigmoid(chosen) - logsigmoid(-rejected)


def sppo_hard(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = pairs.ratios
    return (chosen - 0.5 / options.beta).square() + (rejected + 0.5 / options.beta).square()


def aot(pairs: Pairs, options: Settings) -> Tensor:
    policy, reference = pairs.chosen - pairs.rejected, pairs.ref_chosen - pairs.ref_rejected
    return _smoothed(options.beta * (policy.sort().values - reference.sort().values), options)


def aot_unpaired(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = pairs.ratios
    return _smoothed(options.beta * (chosen.sort().values - rejected.sort().values), options)


def apo_zero(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = pairs.ratios
    return torch.sigmoid(-options.beta * chosen) + torch.sigmoid(options.beta * rejected)


def apo_down(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = pairs.ratios
    return torch.sigmoid(options.beta * chosen) + torch.sigmoid(options.beta * (rejected - chosen))


def discopop(pairs: Pairs, options: Settings) -> Tensor:
    logits = options.beta * _difference(pairs, options)
    mixed = logits / options.discopop_tau
    # m exp(-b d) in one exponent: apart they are 0 times infinity for a pair that is far off.
    exponential = torch.exp((logsigmoid(mixed) - logits).clamp(max=_LARGEST))
    return exponential - torch.sigmoid(-mixed) * logsigmoid(logits)


def cpo(pairs: Pairs, options: Settings) -> Tensor:
    return _smoothed(options.beta * (pairs.chosen - pairs.rejected), options)


def simpo(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = pairs.per_token(pairs.chosen, pairs.rejected)
    return _smoothed(options.beta * (chosen - rejected) - options.simpo_gamma, options)


def orpo(pairs: Pairs, options: Settings) -> Tensor:
    chosen, rejected = pairs.per_token(pairs.chosen, pairs.rejected)
    log_odds = (chosen - rejected) - (_log_1m_exp(chosen) - _log_1m_exp(rejected))
    return -options.beta * logsigmoid(log_odds)


def _log_1m_exp(x: Tensor) -> Tensor:
    """``log(1 - exp(x))`` for x < 0, exact near 0 and far from it; x closer to 0 than float32 can tell is kept off."""
    x = x.clamp(max=-torch.finfo(x.dtype).eps)
    near = x > -math.log(2)
    # Each branch sees only values on which its gradient is finite.
    inner = torch.log(-torch.expm1(torch.where(near, x, -1.0)))
    return torch.where(near, inner, torch.log1p(-torch.exp(torch.where(near, -1.0, x))))


Loss = Callable[[Pairs, Settings], Tensor]

#: Losses of the policy against a reference: [n] from pairs.
WITH_REFERENCE: dict[str, Loss] = {
    f.__name__: f
    for f in (
        sigmoid, sigmoid_norm, hinge, ipo, robust, exo_pair, nca_pair, bco_pair, sppo_hard, aot, aot_unpaired,
        apo_zero, apo_down, discopop,
    )
}  # fmt: skip
#: Losses of the policy alone.
WITHOUT_REFERENCE: dict[str, Loss] = {f.__name__: f for f in (cpo, simpo, orpo)}
LOSSES = WITH_REFERENCE | WITHOUT_REFERENCE
#: The loss over tokens that may stand in a mixture.
SFT = "sft"
