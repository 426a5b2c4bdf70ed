"""Recipes of other tools, as their documentation shows them: converted, and trained on the tiny model."""

from __future__ import annotations

import json

import pytest
import yaml

from hetero.errors import RecipeError
from hetero.train.recipe import load
from hetero.train.recipe.convert import convert, read

CHAT = {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}
PAIR = {"prompt": "1+1=", "chosen": "2", "rejected": "3"}

LLAMAFACTORY = {
    "stage": "sft",
    "do_train": True,
    "finetuning_type": "lora",
    "lora_rank": 8,
    "lora_target": "all",
    "template": "llama3",
    "cutoff_len": 64,
    "overwrite_cache": True,
    "preprocessing_num_workers": 16,
    "plot_loss": True,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 2,
    "learning_rate": 1.0e-4,
    "num_train_epochs": 1.0,
    "lr_scheduler_type": "cosine",
    "warmup_ratio": 0.1,
    "bf16": False,
    "logging_steps": 1,
    "report_to": "none",
    "ddp_timeout": 180000000,
}
TRL = {
    "learning_rate": 5.0e-6,
    "num_train_epochs": 1,
    "per_device_train_batch_size": 2,
    "gradient_checkpointing": False,
    "logging_steps": 1,
    "eval_strategy": "no",
    "use_peft": True,
    "lora_r": 4,
    "lora_alpha": 16,
    "beta": 0.1,
    "max_length": 64,
    "report_to": "none",
    "push_to_hub": True,
}
SWIFT = """#!/bin/bash
# two cards
CUDA_VISIBLE_DEVICES=0,1 swift rlhf \\
    --rlhf_type dpo --model hetero:tiny-qwen2 --tuner_type full \\
    --dataset {data}#500 --torch_dtype float32 --max_length 64 --max_steps 1 --report_to none \\
    --per_device_train_batch_size 8 --beta 0.1 --deepspeed zero2 --output_dir {out}
"""


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Converts a file, trains by the result, gives the conversion and the run's steps."""
    import hetero
    from hetero.train import report, run

    monkeypatch.setattr(report, "loss_curve", lambda run_dir: None)

    def go(path, algorithm=None):
        done = convert(*read(path), algorithm)
        recipe = tmp_path / "converted.yaml"
        recipe.write_text(done.to_yaml())
        return done, run(load(recipe), hetero.device("cpu"))

    return go


def rows(path, row, count=4):
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(count)))
    return str(path)


def test_llamafactory_sft(tmp_path, trained):
    data = rows(tmp_path / "rows.jsonl", CHAT)
    path = tmp_path / "lf.yaml"
    settings = {
        "model_name_or_path": "hetero:tiny-qwen2",
        "dataset": data,
        "output_dir": str(tmp_path / "out"),
    }
    path.write_text(yaml.safe_dump(LLAMAFACTORY | settings | {"quantization_bit": 4}))
    done, result = trained(path)
    assert done.tool == "llamafactory" and result.steps == 2
    # What that tool does without being asked.
    assert done.values["lora_alpha"] == 16 and done.values["lora_dropout"] == 0
    assert done.values["assistant_only_loss"] and done.values["gradient_checkpointing"]
    assert [note.split(":")[0] for note in done.notes] == ["quantization_bit", "template"]


def test_trl_dpo(tmp_path, trained):
    data = rows(tmp_path / "rows.jsonl", PAIR)
    path = tmp_path / "trl.yaml"
    settings = {
        "model_name_or_path": "hetero:tiny-qwen2",
        "dataset_name": data,
        "output_dir": str(tmp_path / "out"),
    }
    path.write_text(yaml.safe_dump(TRL | settings))
    done, result = trained(path)
    assert done.values["algorithm"] == "dpo" and result.steps == 2
    assert [note.split(":")[0] for note in done.notes] == [
        "taken for DPO, by its keys; say otherwise with --algorithm",
        "push_to_hub",
    ]


def test_swift_command_line(tmp_path, trained):
    data = rows(tmp_path / "rows.jsonl", PAIR)
    path = tmp_path / "train.sh"
    path.write_text(SWIFT.format(data=data, out=tmp_path / "out"))
    done, result = trained(path)
    assert result.steps == 1 and done.values["algorithm"] == "dpo" and done.values["use_peft"] is False
    assert done.values["gradient_accumulation_steps"] == 2  # to 16 rows a step
    assert any("#500" in note for note in done.notes) and any(
        note.startswith("deepspeed") for note in done.notes
    )


@pytest.mark.parametrize(
    "loss, expected", [("orpo", ["orpo"]), ("sigmoid", ["sigmoid"]), ("simpo", ["simpo"])]
)
def test_losses(loss, expected):
    done = convert("llamafactory", {"stage": "dpo", "pref_loss": loss, "pref_ftx": 0.5})
    assert done.values["loss_type"] == [*expected, "sft"] and done.values["loss_weights"] == [1.0, 0.5]


def test_what_does_not_fit_is_noted_and_left_out():
    done = convert(
        "trl", {"beta": 0.3, "learning_rate": "fast", "max_steps": 5, "num_train_epochs": 2}, "sft"
    )
    assert done.values.keys() == {"algorithm", "gradient_checkpointing", "max_steps"}
    text = "\n".join(done.notes)
    for part in (
        "beta: 0.3: has no effect with algorithm: sft",
        "learning_rate",
        "max_steps wins",
        "dataset_name is missing",
    ):
        assert part in text


@pytest.mark.parametrize(
    "tool, settings, part",
    [
        ("llamafactory", {"stage": "ppo"}, "'ppo' has no counterpart"),
        ("llamafactory", {"stage": "sft", "finetuning_type": "oft"}, "'oft' tuning"),
        ("swift", {"rlhf_type": "gkd"}, "'gkd'"),
    ],
)
def test_training_that_does_not_exist_here(tool, settings, part):
    with pytest.raises(RecipeError, match=part):
        convert(tool, settings)


def test_unreadable(tmp_path):
    path = tmp_path / "train.sh"
    path.write_text("python train.py\n")
    with pytest.raises(RecipeError, match="command line"):
        read(path)
