"""Reward models against TRL's recorded numbers, and where the score is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hetero.errors import ModelError
from tests.train.preferences import GOLDEN, Trial, pairs, write

MARGINS = [{**pair, "margin": 0.25 * i} for i, pair in enumerate(pairs())]


def _trial(folder: Path, rows: Any = None, **keys: Any) -> Trial:
    path = write(folder, rows or pairs(), algorithm="rm")
    return Trial(path, *(f"{key}={json.dumps(value)}" for key, value in keys.items()))


@pytest.mark.parametrize(
    "name, rows, keys",
    [("plain", None, {}), ("centered", None, {"center_rewards_coefficient": 0.01}), ("margin", MARGINS, {})],
)
def test_equals_trl(tmp_path: Path, name: str, rows: Any, keys: dict[str, Any]) -> None:
    trial = _trial(tmp_path, rows, **keys)
    assert trial.numbers(trial.step()) == pytest.approx(GOLDEN["rm"][name], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_split_of_a_window_is_the_same(tmp_path: Path, size: int) -> None:
    trial = _trial(tmp_path, MARGINS, center_rewards_coefficient=0.01)
    whole = _trial(tmp_path, MARGINS, center_rewards_coefficient=0.01)
    got, expected = trial.numbers(trial.step(size)), whole.numbers(whole.step())
    for extreme in ("min_reward", "max_reward"):  # of each micro-batch
        got.pop(extreme), expected.pop(extreme)
    assert got == pytest.approx(expected, rel=2e-6, abs=1e-7)


def test_a_batch_without_pairs_trains_on_nothing(tmp_path: Path) -> None:
    trial = _trial(tmp_path)
    result = trial.stepper([[], []], 1e-3)
    assert (result.loss, result.grad_norm, result.metrics) == (0.0, 0.0, {})


@pytest.mark.parametrize("pad", [0, 2], ids=["padding token", "padding is the end token"])
def test_the_score_of_an_answer_does_not_depend_on_its_batch(tmp_path: Path, pad: int) -> None:
    trial = _trial(tmp_path)
    trial.model.config.pad_token_id = trial.algorithm._tokenizer.pad_token_id = pad
    rows = list(trial.examples)

    def scores(*examples: Any) -> torch.Tensor:
        batch = trial.algorithm.collate(examples)
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
        return trial.model(**inputs, use_cache=False).logits.squeeze(-1).view(2, -1)

    together = scores(*rows)
    alone = torch.cat([scores(row) for row in rows], 1)
    assert torch.allclose(together, alone, atol=1e-6)


def test_long_answers_are_left_out_not_cut(tmp_path: Path) -> None:
    lengths = [
        max(len(e["chosen"]["input_ids"]), len(e["rejected"]["input_ids"])) for e in _trial(tmp_path).examples
    ]
    limit = sorted(lengths)[1]
    trial = _trial(tmp_path, max_length=limit)
    kept = sum(length <= limit for length in lengths)
    assert 0 < kept < 4 and len(trial.examples) == trial.report.kept == kept
    assert f"longer than max_length {limit}" in trial.report.dropped_text()


def test_a_classifier_of_other_shape_is_refused(tmp_path: Path) -> None:
    trial = _trial(tmp_path)
    trial.model.config.num_labels = 3
    with pytest.raises(ModelError, match="one output, this model has 3"):
        trial.algorithm.check(trial.model)
