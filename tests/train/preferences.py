"""The golden preference data, and steps of an algorithm on it, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

import hetero
from hetero.train import recipe
from hetero.train.algorithms import create
from hetero.train.data.builtin import arithmetic
from hetero.train.distributed import Engine
from hetero.train.model.tiny import tiny_model, tiny_tokenizer
from hetero.train.optim import AdamW
from hetero.train.window import Stepper, StepResult

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "trl_preferences.json").read_text())
ALONE = SimpleNamespace(
    rank=0,
    world_size=1,
    group=None,
    all_gather_object=lambda value: [value],
    broadcast_object=lambda value, src: value,
)


def pairs(count: int = 4) -> list[dict[str, Any]]:
    """Rows of which the chosen answer is right and the rejected one reversed, once or twice."""
    return [
        {
            "prompt": [{"role": "user", "content": question}],
            "chosen": [{"role": "assistant", "content": answer}],
            "rejected": [{"role": "assistant", "content": answer[::-1] * (1 + i % 2)}],
        }
        for i, (question, answer, _) in enumerate(arithmetic(count, seed=3))
    ]


def judged(count: int = 7) -> list[dict[str, Any]]:
    """The answers of :func:`pairs` one by one."""
    rows = [
        {"prompt": pair["prompt"], "completion": pair[side], "label": side == "chosen"}
        for pair in pairs(-(-count // 2))
        for side in ("chosen", "rejected")
    ]
    return rows[:count]


def write(folder: Path, rows: Sequence[dict[str, Any]], **keys: Any) -> Path:
    """A recipe of the tiny model on ``rows`` in ``folder``."""
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "model_name_or_path": "hetero:tiny-qwen2",
        "dataset_name": "train.jsonl",
        "max_length": 256,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "report_to": "none",
        "shuffle_dataset": False,
    }
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(values | keys))
    return path


class Trial:
    """An algorithm with the model of seed 1 and the reference of seed 2, ready for steps."""

    def __init__(self, path: Path, *overrides: str, comm: Any = ALONE, device: Any = None) -> None:
        self.recipe = recipe.load(path, list(overrides))
        tokenizer = tiny_tokenizer()
        scores = self.recipe.algorithm == "rm"
        self.model: Any = tiny_model(tokenizer, seed=1, scores=scores).train()
        self.algorithm: Any = create(self.recipe, tokenizer)
        self.algorithm.check(self.model)
        self.examples, self.report = self.algorithm.prepare("train")
        self.engine = Engine(self.model, self.algorithm, device or hetero.device("cpu"), comm)
        with_other_reference(self.algorithm)
        self.algorithm.begin(self.engine, {"train": self.examples})
        self.stepper = Stepper(
            self.model, self.algorithm, self.engine, AdamW(self.model.named_parameters(), 1e-3), 1e9
        )

    def step(self, size: int | None = None) -> StepResult:
        """One step on all examples in micro-batches of ``size``."""
        rows = list(self.examples)
        size = size or len(rows)
        return self.stepper([rows[i : i + size] for i in range(0, len(rows), size)], 1e-3)

    def numbers(self, result: StepResult) -> dict[str, float]:
        with torch.no_grad():
            weights = float(sum(p.double().abs().sum() for p in self.model.parameters()))
        return {"loss": result.loss, "grad_norm": result.grad_norm, "w": weights, **result.metrics}


def with_other_reference(algorithm: Any) -> None:
    """Make ``algorithm`` take the tiny model of seed 2 as its reference."""
    if hasattr(algorithm, "_load"):
        algorithm._recipe = algorithm._recipe.model_copy(update={"ref_model_name_or_path": "seed 2"})
        algorithm._load = lambda engine: tiny_model(tiny_tokenizer(), seed=2)
