"""Whole runs of DPO, KTO and reward models: they learn, resume bit for bit, evaluate, and export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import hetero
from hetero.train import recipe, report, run
from hetero.train.checkpoint import files
from hetero.train.export import export
from hetero.train.metrics import jsonl
from tests.train.preferences import judged, pairs, write

Train = Callable[..., Any]
SIZES = {
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "max_steps": 4,
    "logging_steps": 1,
}
ROWS = {"dpo": pairs(10), "kto": judged(10), "rm": pairs(10)}
WEIGHTS = ("model.safetensors", "adapter_model.safetensors")


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains by the keys given; the held-out data are the training data."""
    monkeypatch.setattr(report, "loss_curve", lambda run_dir: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def train(algorithm: str, name: str = "run", **keys: Any) -> Any:
        keys = {"shuffle_dataset": True, **SIZES, "output_dir": str(tmp_path / name), **keys}
        path = write(tmp_path, ROWS[algorithm], algorithm=algorithm, **keys)
        return run(recipe.load(path, []), hetero.device("cpu"))

    return train


def _rows(run_dir: Path) -> list[dict[str, Any]]:
    measured = ("step_time", "tokens_per_second", "memory_gib", "mfu")
    rows = jsonl.read(run_dir / "metrics.jsonl")
    return [{k: v for k, v in row.items() if k not in measured} for row in rows]


def _weights(run_dir: Path) -> bytes:
    return next((run_dir / name).read_bytes() for name in WEIGHTS if (run_dir / name).exists())


LORA = {"use_peft": True, "lora_r": 4, "learning_rate": 1e-2}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "dpo": ("dpo", {"neftune_noise_alpha": 5.0}),
    "dpo lora": ("dpo", {**LORA, "gradient_checkpointing": True, "loss_type": ["sigmoid", "sft"]}),
    "dpo lora with dropout": ("dpo", {**LORA, "disable_dropout": False, "lora_dropout": 0.3}),
    "dpo precomputed": ("dpo", {"precompute_ref_log_probs": True}),
    "dpo following": ("dpo", {"sync_ref_model": True, "ref_model_sync_steps": 1}),
    "simpo bf16": ("dpo", {"loss_type": "simpo", "dtype": "bfloat16"}),
    "kto": ("kto", {}),
    "kto lora precomputed": ("kto", {**LORA, "precompute_ref_log_probs": True}),
    "rm": ("rm", {"center_rewards_coefficient": 0.01}),
    "rm lora": ("rm", LORA),
}


@pytest.mark.parametrize("name", RUNS)
def test_resume_is_bit_for_bit(train: Train, tmp_path: Path, name: str) -> None:
    algorithm, keys = RUNS[name]
    train(algorithm, "whole", **keys)
    train(algorithm, "parts", **keys, max_steps=2)
    train(algorithm, "parts", **keys, resume_from_checkpoint=True)
    assert _rows(tmp_path / "parts") == _rows(tmp_path / "whole")
    assert _weights(tmp_path / "parts") == _weights(tmp_path / "whole")
    one, other = (
        files.read_json(tmp_path / run / "checkpoint-4" / "manifest.json")["files"]
        for run in ("whole", "parts")
    )
    held = {"optimizer.safetensors", *({"reference.safetensors"} if "following" in name else ())}
    assert {k: one[k] for k in held} == {k: other[k] for k in held}
    assert ("reference.safetensors" in one) == ("following" in name)


def test_a_precomputed_reference_is_reused_and_changes_nothing(train: Train, tmp_path: Path) -> None:
    train("dpo", "live")
    train("dpo", "cached", precompute_ref_log_probs=True)
    (folder,) = (tmp_path / "cache" / "hetero" / "reference").iterdir()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    train("dpo", "other beta", precompute_ref_log_probs=True, beta=0.5)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    for live, cached in zip(_rows(tmp_path / "live"), _rows(tmp_path / "cached"), strict=True):
        assert cached == pytest.approx(live, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("precompute", [False, True])
def test_evaluation_is_logged_with_trls_names(train: Train, tmp_path: Path, precompute: bool) -> None:
    metrics = train(
        "dpo",
        eval_dataset_name="train.jsonl",
        eval_steps=2,
        num_train_epochs=4,
        max_steps=-1,
        precompute_ref_log_probs=precompute,
    ).metrics
    rows = [row for row in _rows(tmp_path / "run") if "eval_loss" in row]
    names = {"loss", "entropy", "rewards/margins", "rewards/accuracies", "rewards/chosen", "logps/rejected"}
    assert {f"eval_{name}" for name in names} <= rows[-1].keys()
    assert rows[-1]["eval_loss"] < rows[0]["eval_loss"] < 0.7
    assert metrics["eval_rewards/margins"] > rows[0]["eval_rewards/margins"] > 0


def test_an_adapter_learns_preferences_too(train: Train, tmp_path: Path) -> None:
    train("dpo", **LORA, max_steps=12)
    first, *_, last = _rows(tmp_path / "run")
    assert first["loss"] == pytest.approx(0.6931471805599453) and first["rewards/margins"] == 0.0
    assert last["rewards/margins"] > 0.1 and last["loss"] < 0.65


@pytest.mark.parametrize("lora", [False, True])
def test_a_reward_model_is_exported_as_transformers_loads_it(
    train: Train, tmp_path: Path, lora: bool
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    train("rm", **({**LORA, "learning_rate": 2e-3} if lora else {}), max_steps=12)
    export(tmp_path / "run", tmp_path / "out", merge=lora)
    export(tmp_path / "run" / "checkpoint-12", tmp_path / "again")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert model.config.num_labels == 1 and model.config.pad_token_id == tokenizer.pad_token_id
    texts = [
        tokenizer.apply_chat_template(pair["prompt"] + pair[side], tokenize=False)
        for side in ("chosen", "rejected")
        for pair in ROWS["rm"]
    ]
    inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    with torch.no_grad():
        chosen, rejected = model(**inputs).logits.view(2, -1)
    assert (chosen - rejected).mean() > 0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["Qwen2ForSequenceClassification"]


def test_a_reward_model_starts_from_a_language_model(train: Train, tmp_path: Path) -> None:
    train("dpo", "policy", max_steps=1)
    result = train("rm", "rewards", model_name_or_path=str(tmp_path / "policy"), max_steps=1)
    again = train("rm", "again", model_name_or_path=str(tmp_path / "policy"), max_steps=1)
    assert result.metrics["loss"] == again.metrics["loss"]  # the new head is drawn from the seed
    further = train("rm", "further", model_name_or_path=str(tmp_path / "rewards"), max_steps=1)
    assert further.metrics["loss"] != result.metrics["loss"]
