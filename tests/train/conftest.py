"""Small recipes and data for tests of whole training runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hetero.train.data.builtin import arithmetic


@pytest.fixture
def make_recipe(tmp_path: Path) -> Callable[..., Any]:
    """Makes recipes of the tiny model on 10 conversations: 5 micro-batches of 2, windows of 2, 2 and 1."""
    from hetero.train import recipe

    data = tmp_path / "train.jsonl"
    rows = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a * (1 + i % 3)}]}
        for i, (q, a, _) in enumerate(arithmetic(10))
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(**keys: Any) -> Any:
        values = {
            "model_name_or_path": "hetero:tiny-qwen2",
            "dataset_name": str(data),
            "assistant_only_loss": True,
            "max_length": 64,
            "learning_rate": 1e-3,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 2,
            "max_steps": 5,
            "report_to": "none",
            "logging_steps": 1,
            "output_dir": str(tmp_path / "run"),
        }
        # JSON is YAML, whatever the values are.
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps(values | keys))
        return recipe.load(path, [])

    return make


@pytest.fixture
def train(make_recipe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Trains on the CPU by the recipe that ``make_recipe`` makes of the given keys. Draws no picture."""
    import hetero
    from hetero.train import report, run

    monkeypatch.setattr(report, "loss_curve", lambda run_dir: None)
    return lambda **keys: run(make_recipe(**keys), hetero.device("cpu"))
