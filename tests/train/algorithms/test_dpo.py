"""The DPO family against TRL's recorded numbers, and what a loss over windows must keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hetero.train.preference.pairs import WITH_REFERENCE
from tests.train.preferences import GOLDEN, Trial, pairs, write

#: golden name -> recipe keys
SETTINGS: dict[str, dict[str, Any]] = {name: {"loss_type": name} for name in (*WITH_REFERENCE, "sft")} | {
    "exo_pair": {"loss_type": "exo_pair", "label_smoothing": 0.1},
    "robust": {"loss_type": "robust", "label_smoothing": 0.1},
    "aot_smoothed": {"loss_type": "aot", "label_smoothing": 0.1},
    "mixture": {"loss_type": ["sigmoid", "bco_pair", "sft"], "loss_weights": [0.8, 0.2, 1]},
    "ld_alpha": {"ld_alpha": 0.5},
    "forward_kl": {"f_divergence_type": "forward_kl"},
    "js_divergence": {"f_divergence_type": "js_divergence"},
    "alpha_divergence": {"f_divergence_type": "alpha_divergence"},
    "max_length_24": {"max_length": 24},
    "sigmoid_bs2": {},
    "sigmoid_bs1": {},
}


def test_every_golden_setting_is_here() -> None:
    assert set(SETTINGS) == set(GOLDEN["dpo"])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("dpo"), pairs(), algorithm="dpo")


def _trial(path: Path, **keys: Any) -> Trial:
    return Trial(path, *(f"{key}={json.dumps(value)}" for key, value in keys.items()))


def approx(expected: dict[str, float], rel: float = 1e-5) -> Any:
    """Within ``rel``; a mean that is a small difference of rewards, within that of the rewards."""
    return {
        name: pytest.approx(value, rel=rel, abs=1e-6 if "/" in name else 1e-12)
        for name, value in expected.items()
    }


@pytest.mark.parametrize("name", SETTINGS)
def test_equals_trl(path: Path, name: str) -> None:
    trial = _trial(path, **SETTINGS[name])
    result = trial.step({"sigmoid_bs2": 2, "sigmoid_bs1": 1}.get(name))
    assert trial.numbers(result) == approx(GOLDEN["dpo"][name])


#: name -> (golden numbers, recipe keys). TRL's CPO rewards of SimPO are means over tokens, as ours.
FREE = {
    "sigmoid": {"loss_type": ["cpo", "sft"], "loss_weights": [1, 1]},
    "sigmoid_alpha0": {"loss_type": "cpo"},
    "simpo": {"loss_type": "simpo"},
    "simpo_alpha": {"loss_type": ["simpo", "sft"], "loss_weights": [1, 0.5], "label_smoothing": 0.1},
}


@pytest.mark.parametrize("name", FREE)
def test_without_a_reference_equals_trls_cpo(path: Path, name: str) -> None:
    trial = _trial(path, **FREE[name])
    _end_twice(trial)
    numbers = trial.numbers(trial.step())
    expected = {k: v for k, v in GOLDEN["cpo"][name].items() if k != "nll_loss"}
    if "simpo" in name:  # TRL logs means over tokens as logps, too
        expected = {k: v for k, v in expected.items() if not k.startswith("logps/")}
    assert numbers == approx(expected) | {k: v for k, v in numbers.items() if k not in expected}
    assert trial.algorithm._reference is None


def test_orpo_equals_trls_odds_ratio(path: Path) -> None:
    """TRL adds the negative log-likelihood of prompt and answer; ours is [orpo, sft], of the answer."""
    trial, expected = _trial(path, loss_type="orpo"), GOLDEN["orpo"]["orpo"]
    _end_twice(trial)
    result = trial.step()
    assert result.loss == pytest.approx(expected["loss"] - expected["nll_loss"], rel=2e-5)
    assert result.loss == pytest.approx(-0.1 * expected["log_odds_ratio"], rel=1e-5)
    assert result.metrics["rewards/margins"] == pytest.approx(expected["rewards/margins"], rel=1e-4)


def _end_twice(trial: Trial) -> None:
    for example in (examples := list(trial.examples)):
        for sequence in (example["chosen"], example["rejected"]):
            sequence["input_ids"].append(2)
            sequence["labels"].append(2)
    trial.examples = examples


MIXTURE = {
    "loss_type": ["sigmoid", "ipo", "sft", "simpo"],
    "loss_weights": [1, 0.1, 0.5, 0.3],
    "ld_alpha": 0.7,
}


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_every_split_of_a_window_is_the_same(path: Path, tmp_path: Path, size: int) -> None:
    rows = write(tmp_path, pairs(7), algorithm="dpo")
    whole, split = _trial(rows, **MIXTURE), _trial(rows, **MIXTURE)
    expected = whole.numbers(whole.step())
    assert split.numbers(split.step(size)) == approx(expected, rel=2e-6)


def test_at_the_first_step_the_margin_is_zero(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policy and reference are the same model then: exactly, dropout and noise or not."""
    from hetero.train.algorithms import add_noise
    from tests.train import preferences

    monkeypatch.setattr(preferences, "with_other_reference", lambda algorithm: None)
    trial = _trial(path)
    result = trial.step()
    assert result.loss == pytest.approx(0.6931471805599453, rel=1e-7)
    assert result.metrics["rewards/margins"] == result.metrics["rewards/chosen"] == 0.0
    noisy = _trial(path)
    add_noise(noisy.model, 5.0)
    with noisy.algorithm._reference.active() as model:
        assert not model.training and model is not noisy.model
    assert noisy.step().metrics["rewards/chosen"] != 0.0


def test_dropout_is_off_unless_asked_for(path: Path) -> None:
    assert _trial(path).model.model.layers[0].self_attn.attention_dropout == 0.0
    trial = _trial(path)
    trial.model.model.layers[0].self_attn.attention_dropout = 0.5
    trial.model.extra = torch.nn.Dropout(0.5)
    trial.algorithm.check(trial.model)
    assert trial.model.extra.p == trial.model.model.layers[0].self_attn.attention_dropout == 0.0
    kept = _trial(path, disable_dropout=False)
    kept.model.extra = torch.nn.Dropout(0.5)
    kept.algorithm.check(kept.model)
    assert kept.model.extra.p == 0.5


def test_a_batch_without_pairs_trains_on_nothing(path: Path) -> None:
    trial = _trial(path, loss_type=["sigmoid", "aot", "simpo", "sft"])
    before = [p.clone() for p in trial.model.parameters()]
    result = trial.stepper([[], []], 1e-3)
    assert (result.loss, result.grad_norm, result.applied) == (0.0, 0.0, True)
    assert all(torch.equal(a, b) for a, b in zip(before, trial.model.parameters(), strict=True))
    other = _trial(path, loss_type=["sigmoid", "aot", "simpo", "sft"])
    rows = list(trial.examples)
    assert trial.stepper([rows, []], 1e-3).loss == pytest.approx(other.stepper([rows], 1e-3).loss, rel=1e-7)


def test_padding_does_not_count(path: Path) -> None:
    """Alone or beside longer pairs, a pair has the same log-probabilities."""
    trial = _trial(path)
    rows = list(trial.examples)
    together = trial.algorithm.collate(rows)
    all_four = trial.algorithm._numbers(together)
    for i, row in enumerate(rows):
        alone = trial.algorithm._numbers(trial.algorithm.collate([row]))
        assert torch.allclose(alone[:, 0], all_four[:, i], rtol=1e-6)


def test_logits_are_never_held(path: Path) -> None:
    trial = _trial(path)
    called: list[int] = []
    for model in (trial.model, trial.algorithm._reference.model):
        model.lm_head.register_forward_hook(lambda *args: called.append(1))
    trial.step()
    assert not called


def test_the_reference_follows_the_policy(path: Path) -> None:
    trial = _trial(path, sync_ref_model=True, ref_model_sync_steps=2, ref_model_mixup_alpha=0.25)
    (reference,) = trial.algorithm.modules().values()
    before = reference.lm_head.weight.clone()
    trial.step()
    trial.algorithm.after_step(trial.model, 1)
    assert torch.equal(reference.lm_head.weight, before)
    trial.algorithm.after_step(trial.model, 2)
    expected = 0.25 * trial.model.lm_head.weight + 0.75 * before
    assert torch.allclose(reference.lm_head.weight, expected, atol=1e-7)
    assert _trial(path).algorithm.modules() == {}
