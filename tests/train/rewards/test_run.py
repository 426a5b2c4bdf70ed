"""Rewards in a whole run: what fails is counted in the metrics, and what cannot work is refused before it starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hetero
from hetero.errors import RecipeError
from hetero.train import recipe, report, run
from hetero.train.rewards import code


def grpo(folder: Path, *rewards: str) -> Any:
    (folder / "mine.py").write_text(
        "def breaks(completions, **_):\n    raise KeyError('gold')\n\n"
        "def length(completions, **_):\n    return [float(len(str(c))) for c in completions]\n"
    )
    values = {
        "algorithm": "grpo",
        "model_name_or_path": "hetero:tiny-qwen2",
        "dataset_name": "hetero:arithmetic?rows=4",
        "reward_funcs": list(rewards),
        "reward_errors": "skip",
        "num_generations": 2,
        "max_completion_length": 4,
        "per_device_train_batch_size": 4,
        "max_steps": 1,
        "logging_steps": 1,
        "report_to": "none",
        "output_dir": str(folder / "run"),
    }
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(values))
    return recipe.load(path, [])


def test_failures_are_in_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "loss_curve", lambda run_dir: None)
    run(grpo(tmp_path, "mine.py:breaks", "mine.py:length"), hetero.device("cpu"))
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert row["rewards/breaks/failure_frequency"] == 1 and "rewards/breaks/mean" not in row
    assert row["rewards/length/failure_frequency"] == 0 and row["reward"] == row["rewards/length/mean"] > 0


def test_code_is_refused_where_nothing_isolates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "available", lambda: "no namespaces")
    with pytest.raises(RecipeError, match="code_unsandboxed"):
        run(grpo(tmp_path, "code"), hetero.device("cpu"))
