"""Each loss against its formula, written out anew in float64; and what happens far off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hetero.train.preference import unpaired
from hetero.train.preference.pairs import (
    LOSSES,
    SFT,
    WITH_REFERENCE,
    WITHOUT_REFERENCE,
    Pairs,
    Settings,
    score,
)
from hetero.train.recipe import algorithms

B, E, TAU, GAMMA = 0.3, 0.1, 0.4, 0.7
OPTIONS = Settings(beta=B, label_smoothing=E, discopop_tau=TAU, simpo_gamma=GAMMA)


def sig(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def cdpo(x: float) -> float:
    return -(1 - E) * math.log(sig(x)) - E * math.log(sig(-x))


def odds(mean: float) -> float:
    return math.log(math.exp(mean) / (1 - math.exp(mean)))


#: w, v: log-probabilities; rw, rl: the reference's; n, m: tokens.
FORMULAS: dict[str, Callable[..., float]] = {
    "sigmoid": lambda w, v, rw, rl, n, m: cdpo(B * ((w - rw) - (v - rl))),
    "sigmoid_norm": lambda w, v, rw, rl, n, m: -math.log(sig(B * ((w - rw) / n - (v - rl) / m))),
    "hinge": lambda w, v, rw, rl, n, m: max(0, 1 - B * ((w - rw) - (v - rl))),
    "ipo": lambda w, v, rw, rl, n, m: ((w - rw) / n - (v - rl) / m - 1 / (2 * B)) ** 2,
    "robust": lambda w, v, rw, rl, n, m: (
        (-(1 - E) * math.log(sig(B * (w - rw - v + rl))) + E * math.log(1 - sig(B * (w - rw - v + rl))))
        / (1 - 2 * E)
    ),
    "exo_pair": lambda w, v, rw, rl, n, m: sum(
        p * math.log(p / q)
        for p, q in zip((sig(B * (w - rw - v + rl)), 1 - sig(B * (w - rw - v + rl))), (1 - E, E), strict=True)
    ),
    "nca_pair": lambda w, v, rw, rl, n, m: (
        -math.log(sig(B * (w - rw)))
        - math.log(1 - sig(B * (w - rw))) / 2
        - math.log(1 - sig(B * (v - rl))) / 2
    ),
    "bco_pair": lambda w, v, rw, rl, n, m: -math.log(sig(B * (w - rw))) - math.log(1 - sig(B * (v - rl))),
    "sppo_hard": lambda w, v, rw, rl, n, m: (w - rw - 0.5 / B) ** 2 + (v - rl + 0.5 / B) ** 2,
    "apo_zero": lambda w, v, rw, rl, n, m: 1 - sig(B * (w - rw)) + sig(B * (v - rl)),
    "apo_down": lambda w, v, rw, rl, n, m: sig(B * (w - rw)) + 1 - sig(B * ((w - rw) - (v - rl))),
    "discopop": lambda w, v, rw, rl, n, m: (
        sig(B * (w - rw - v + rl) / TAU) * math.exp(-B * (w - rw - v + rl))
        - (1 - sig(B * (w - rw - v + rl) / TAU)) * math.log(sig(B * (w - rw - v + rl)))
    ),
    "cpo": lambda w, v, rw, rl, n, m: cdpo(B * (w - v)),
    "simpo": lambda w, v, rw, rl, n, m: cdpo(B * (w / n - v / m) - GAMMA),
    "orpo": lambda w, v, rw, rl, n, m: -B * math.log(sig(odds(w / n) - odds(v / m))),
}


def _random(count: int = 9, dtype: torch.dtype = torch.float64) -> Pairs:
    draw = np.random.default_rng(0)
    sums = [torch.tensor(draw.uniform(-30, -5, count), dtype=dtype) for _ in range(4)]
    return Pairs(*sums, *(torch.tensor(draw.integers(1, 12, count), dtype=dtype) for _ in range(2)))


def _rows(pairs: Pairs) -> list[tuple[float, ...]]:
    return list(zip(*(getattr(pairs, name).tolist() for name in Pairs.__dataclass_fields__), strict=True))


@pytest.mark.parametrize("name", FORMULAS)
def test_is_its_formula(name: str) -> None:
    pairs = _random()
    expected = [FORMULAS[name](*row) for row in _rows(pairs)]
    assert LOSSES[name](pairs, OPTIONS).tolist() == pytest.approx(expected, rel=1e-12)


def test_optimal_transport_compares_sorted_values() -> None:
    pairs = _random()
    w, v, rw, rl, _, _ = (np.array(column) for column in zip(*_rows(pairs), strict=True))
    paired = [cdpo(B * x) for x in np.sort(w - v) - np.sort(rw - rl)]
    assert LOSSES["aot"](pairs, OPTIONS).tolist() == pytest.approx(paired)
    apart = [cdpo(B * x) for x in np.sort(w - rw) - np.sort(v - rl)]
    assert LOSSES["aot_unpaired"](pairs, OPTIONS).tolist() == pytest.approx(apart)


def test_no_loss_is_left_out() -> None:
    assert set(FORMULAS) | {"aot", "aot_unpaired"} == set(LOSSES)
    assert set(algorithms.LOSSES["dpo"]) == {*LOSSES, SFT}
    assert set(algorithms.WITH_REFERENCE) == set(WITH_REFERENCE)
    assert set(algorithms.WITHOUT_REFERENCE) == set(WITHOUT_REFERENCE)
    assert set(algorithms.LOSSES["kto"]) == set(unpaired.LOSSES)


def test_without_smoothing_the_sigmoid_loss_is_dpos() -> None:
    pairs, options = _random(), Settings(beta=B)
    (w, v), (rw, rl) = (pairs.chosen, pairs.rejected), (pairs.ref_chosen, pairs.ref_rejected)
    expected = -torch.log(torch.sigmoid(B * (w - rw - v + rl)))
    assert torch.allclose(LOSSES["sigmoid"](pairs, options), expected)


DIVERGENCES: dict[str, Callable[[float], float]] = {
    "reverse_kl": lambda u: math.log(u),
    "forward_kl": lambda u: 1 - 1 / u,
    "js_divergence": lambda u: math.log(2 * u / (1 + u)),
    "alpha_divergence": lambda u: (u ** (0.3 - 1) - 1) / (0.3 - 1),
}


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_scores_are_the_divergences_derivative(kind: str) -> None:
    ratio = torch.linspace(-3, 3, 7, dtype=torch.float64)
    found = score(ratio, Settings(f_divergence_type=kind, f_alpha_divergence_coef=0.3))
    assert found.tolist() == pytest.approx(
        [DIVERGENCES[kind](math.exp(r)) for r in ratio.tolist()], abs=1e-12
    )


def test_alpha_divergence_at_one_is_reverse_kl() -> None:
    options = Settings(f_divergence_type="alpha_divergence", f_alpha_divergence_coef=1.0)
    assert score(torch.tensor([1.5]), options).tolist() == [1.5]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("margin", [-1e4, -300.0, 0.0, 300.0, 1e4])
def test_far_off_pairs_stay_finite(name: str, margin: float) -> None:
    """As pairs of thousands of tokens are: every value and gradient is a number, also of equal and empty answers."""
    chosen = torch.tensor([margin - 1e4, 0.0], requires_grad=True)
    rejected = torch.tensor([-1e4, 0.0], requires_grad=True)
    reference, tokens = torch.tensor([-1e4, 0.0]), torch.tensor([2e4, 0.0])
    pairs = Pairs(chosen, rejected, reference, reference, tokens, tokens)
    for divergence in ("reverse_kl", "js_divergence") if name in WITH_REFERENCE else ("reverse_kl",):
        loss = LOSSES[name](pairs, replace(Settings(label_smoothing=E), f_divergence_type=divergence))
        gradients = torch.autograd.grad(loss.sum(), [chosen, rejected])
        assert all(part.isfinite().all() for part in (loss, *gradients)), (name, divergence)


@pytest.mark.parametrize("kind", ["forward_kl", "alpha_divergence"])
def test_steep_divergences_stay_finite(kind: str) -> None:
    ratio = torch.tensor([-1e4, 1e4], requires_grad=True)
    found = score(ratio, Settings(f_divergence_type=kind))
    found.sum().backward()
    assert found.isfinite().all() and ratio.grad is not None and ratio.grad.isfinite().all()


@pytest.mark.parametrize("name", unpaired.LOSSES)
def test_unpaired_losses_are_their_formulas(name: str) -> None:
    ratio = torch.linspace(-9, 9, 10, dtype=torch.float64, requires_grad=True)
    good, kl = torch.arange(10) % 2 == 0, torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    found = unpaired.LOSSES[name](ratio, good, kl, B)
    z = 1.5 if name == "kto" else 0.0
    expected = [
        1 - sig(B * (r - z)) if g else 1 - sig(B * (z - r))
        for r, g in zip(ratio.tolist(), good.tolist(), strict=True)
    ]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)
    gradients: tuple[Any, ...] = torch.autograd.grad(found.sum(), [ratio, kl], allow_unused=True)
    assert gradients[1] is None  # nothing flows through z
    assert torch.equal(gradients[0] < 0, good)
    far = unpaired.LOSSES[name](torch.tensor([1e5, -1e5]), torch.tensor([True, False]), torch.tensor(0.0), B)
    assert far.tolist() == [0.0, 0.0]
