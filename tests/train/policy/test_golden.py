"""The objectives and sums against TRL's recorded numbers on hand-made rollouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hetero import ops
from hetero.train.model.head import LMHead
from hetero.train.model.tiny import tiny_model, tiny_tokenizer
from hetero.train.policy import aggregation, divergence, objectives

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "trl_grpo.json").read_text())["grpo"]
#: setting -> (objective, aggregation, more)
SETTINGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "grpo": ("clip", "grpo", {}),
    "bnpo": ("clip", "bnpo", {}),
    "dr_grpo": ("clip", "dr_grpo", {}),
    "dapo": ("clip", "dapo", {}),
    "cispo": ("cispo", "dapo", {"high": 5.0}),
    "sapo": ("sapo", "grpo", {}),
    "vespo": ("vespo", "dapo", {}),
    "dapo_clip_higher": ("clip", "dapo", {"high": 0.28}),
    "dapo_delta1.5": ("clip", "dapo", {"delta": 1.5}),
    "gspo(grpo+sequence)": ("clip", "grpo", {"level": "sequence"}),
    "luspo+sequence": ("clip", "luspo", {"level": "sequence"}),
    "grpo_kl_k3": ("clip", "grpo", {"beta": 0.04}),
    "grpo_kl_k3_is": ("clip", "grpo", {"beta": 0.04, "correct_kl": True}),
    "dapo_top_entropy_0.5": ("clip", "dapo", {"quantile": 0.5}),
    "dapo_entropy_coef_0.01": ("clip", "dapo", {"entropy_coef": 0.01}),
}


def test_every_golden_setting_is_here() -> None:
    assert set(SETTINGS) == set(GOLDEN)


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return tiny_model(tiny_tokenizer(), seed=1)


@pytest.mark.parametrize("setting", SETTINGS)
def test_equals_trl(setting: str, model: torch.nn.Module) -> None:
    objective, kind, more = SETTINGS[setting]
    rollout = _rollout(model)
    model.zero_grad()
    log_p, entropy = _score(model, rollout)
    loss = _loss(objective, kind, log_p, entropy, rollout, **more)
    loss.backward()
    norm = sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None) ** 0.5
    # Positive and negative advantages nearly cancel: the loss is exact to float32's error in its terms, near 1.
    assert loss.item() == pytest.approx(GOLDEN[setting]["loss"], rel=1e-5, abs=5e-7)
    assert norm == pytest.approx(GOLDEN[setting]["grad_norm"], rel=1e-5)


def _loss(
    objective: str,
    kind: str,
    log_p: Tensor,
    entropy: Tensor,
    rollout: dict[str, Tensor],
    *,
    high: float = 0.2,
    delta: float | None = None,
    level: str = "token",
    beta: float = 0.0,
    correct_kl: bool = False,
    quantile: float = 1.0,
    entropy_coef: float = 0.0,
) -> Tensor:
    mask, advantages = rollout["mask"], rollout["advantages"]
    log_ratio = log_p - rollout["old"]
    weights = objectives.log_weights(log_ratio, mask, level).exp()
    if objective == "clip":
        losses = objectives.clip(weights, advantages, 0.2, high, delta)
    elif objective == "cispo":
        losses = objectives.cispo(log_p, weights, advantages, high)
    elif objective == "sapo":
        losses = objectives.sapo(weights, advantages)
    else:
        losses = objectives.vespo(log_p, log_ratio, advantages, mask)
    chosen = objectives.high_entropy(entropy, mask, quantile)
    losses = losses * chosen
    if beta:
        kl = divergence.k3(log_p, rollout["ref"])
        losses = losses + beta * (kl * weights if correct_kl else kl)
    items = {"sequences": mask.shape[0], "tokens": mask.sum()}[aggregation.KINDS[kind]]
    loss = aggregation.total(kind, losses, mask, max_length=16) / items
    return loss - entropy_coef * (entropy * chosen).sum() / chosen.sum()


def _rollout(model: torch.nn.Module) -> dict[str, Tensor]:
    """Four sequences of 6 prompt and up to 10 completion tokens, the second prompt padded; from torch seed 7."""
    draw = torch.Generator().manual_seed(7)
    prompts = torch.randint(3, 300, (4, 6), generator=draw)
    completions = torch.randint(3, 300, (4, 10), generator=draw)
    prompts[1, :2] = 0
    attention = torch.ones(4, 16, dtype=torch.long)
    attention[1, :2] = 0
    for row, length in enumerate((10, 7, 4, 9)):
        attention[row, 6 + length :] = 0
    rollout = {
        "ids": torch.cat([prompts, completions], 1),
        "attention": attention,
        "mask": attention[:, 6:].float(),
        "advantages": torch.tensor([1.2, -0.7, 0.4, -0.9]).unsqueeze(1),
    }
    with torch.no_grad():
        log_p, _ = _score(model, rollout)
    rollout["old"] = log_p + 0.3 * torch.randn(4, 10, generator=draw)
    rollout["ref"] = log_p + 0.2 * torch.randn(4, 10, generator=draw)
    return rollout


def _score(model: torch.nn.Module, rollout: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    head = LMHead.of(model)
    hidden = head.hidden({"input_ids": rollout["ids"], "attention_mask": rollout["attention"]})[:, 5:-1]
    log_p, entropy = ops.linear_log_prob(hidden.flatten(0, 1), head.weight, rollout["ids"][:, 6:].flatten())
    return log_p.view(4, 10), entropy.view(4, 10)
