"""KTO against TRL's recorded numbers; its KL term; splits of a window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hetero.errors import DataError
from hetero.train.evaluate import evaluate
from tests.train.preferences import GOLDEN, Trial, judged, write

SETTINGS: dict[str, dict[str, Any]] = {
    "kto": {},
    "kto_weights": {"desirable_weight": 1.5, "undesirable_weight": 0.5},
    "apo_zero_unpaired": {"loss_type": "apo_zero_unpaired"},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("kto"), judged(), algorithm="kto")


def _trial(path: Path, **keys: Any) -> Trial:
    return Trial(path, *(f"{key}={json.dumps(value)}" for key, value in keys.items()))


def approx(expected: dict[str, float], rel: float = 1e-5) -> Any:
    """Within ``rel``; the means of rewards and the KL, differences of log-probabilities, within that of these."""
    near = {"kl": 1e-5, "rewards/chosen": 1e-6, "rewards/rejected": 1e-6, "rewards/margins": 2e-6}
    return {name: pytest.approx(value, rel=rel, abs=near.get(name, 1e-9)) for name, value in expected.items()}


@pytest.mark.parametrize("name", SETTINGS)
def test_equals_trl(path: Path, name: str) -> None:
    trial = _trial(path, **SETTINGS[name])
    assert trial.numbers(trial.step()) == approx(GOLDEN["kto"][name])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_split_of_a_window_is_the_same(path: Path, size: int) -> None:
    """One z for the window: an answer alone in its batch has its KL pair all the same."""
    trial = _trial(path)
    assert trial.numbers(trial.step(size)) == approx(GOLDEN["kto"]["kto"])


def test_each_prompt_gets_the_answer_of_another(path: Path) -> None:
    """Also in odd batches, where reversing the answers would leave the middle one with its own prompt."""
    examples = list(_trial(path).examples)
    for this, before in zip(examples, [examples[-1], *examples], strict=False):
        prompt = [i for i, label in zip(this["input_ids"], this["labels"], strict=True) if label == -100]
        answer = [label for label in before["labels"] if label != -100]
        assert this["mismatched"]["input_ids"] == prompt + answer
        assert this["mismatched"]["labels"] == [-100] * len(prompt) + answer


def test_mismatched_answers_are_cut_to_max_length(path: Path) -> None:
    examples = list(_trial(path, max_length=24).examples)
    assert max(len(e["mismatched"]["input_ids"]) for e in examples) == 24


def test_one_kind_of_answer_and_none_at_all(path: Path, tmp_path: Path) -> None:
    good = write(tmp_path, [row for row in judged() if row["label"]], algorithm="kto")
    metrics = _trial(good).step().metrics
    assert "rewards/chosen" in metrics and not {"rewards/rejected", "rewards/margins"} & metrics.keys()
    trial = _trial(path)
    before = [p.clone() for p in trial.model.parameters()]
    result = trial.stepper([[], []], 1e-3)
    assert (result.loss, result.grad_norm, result.applied) == (0.0, 0.0, True)
    assert all(torch.equal(a, b) for a, b in zip(before, trial.model.parameters(), strict=True))


def test_one_row_has_no_other_answer(tmp_path: Path) -> None:
    row = write(tmp_path, judged(1), algorithm="kto")
    with pytest.raises(DataError, match="at least 2 rows"):
        _trial(row)
    assert _trial(row, loss_type="apo_zero_unpaired").step().applied


def test_uneven_data_is_told_with_weights_that_balance_it(tmp_path: Path) -> None:
    rows = judged(8)
    uneven = write(tmp_path, [row for i, row in enumerate(rows) if row["label"] or i == 1], algorithm="kto")
    (warning,) = _trial(uneven).report.warnings
    assert "4 answers are desirable and 1 are not" in warning and "between 0.25 and 0.33" in warning
    assert not _trial(uneven, desirable_weight=0.3).report.warnings


def test_evaluation_does_not_depend_on_the_batch_size(path: Path) -> None:
    trial = _trial(path)
    found = [evaluate(trial.model, trial.algorithm, trial.engine, trial.examples, size) for size in (2, 7)]
    assert found[0] == pytest.approx(found[1], rel=1e-5, abs=1e-6)
    expected = {f"eval_{name}": value for name, value in GOLDEN["kto"]["kto"].items()}
    del expected["eval_grad_norm"], expected["eval_w"]
    assert found[0] == pytest.approx(expected, rel=1e-5, abs=2e-6)
