"""Whole runs in one process: what they leave behind, how they resume, what they refuse."""

from __future__ import annotations

import json
import os
import pickletools
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hetero
from hetero.errors import CheckpointError
from hetero.train.checkpoint import RunLock, files
from hetero.train.metrics import jsonl
from hetero.train.window import Stepper

Train = Callable[..., Any]


def _losses(run_dir: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in jsonl.read(run_dir / "metrics.jsonl") if "loss" in row]


def _weights(run_dir: Path) -> bytes:
    return next(
        (run_dir / name).read_bytes()
        for name in ("model.safetensors", "adapter_model.safetensors")
        if (run_dir / name).exists()
    )


def test_a_run_leaves_what_transformers_users_expect(make_recipe: Train, tmp_path: Path) -> None:
    recipe = make_recipe(report_to="tensorboard", save_steps=2, save_total_limit=2)
    result = hetero.train.run(recipe, hetero.device("cpu"))
    run_dir = tmp_path / "run"
    assert (result.steps, result.exit_code, result.output_dir) == (5, 0, run_dir)
    present = set(os.listdir(run_dir))
    assert {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "chat_template.jinja", "metrics.jsonl", "recipe.yaml",
        "train_results.json", "loss_curve.png", "runs", "checkpoint-4", "checkpoint-5",
    } <= present  # fmt: skip
    assert not any(
        name.startswith(".writing") or name in ("checkpoint-2", "manifest.json") for name in present
    )
    rows = jsonl.read(run_dir / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    names = {"loss", "grad_norm", "learning_rate", "epoch", "num_tokens", "step_time", "tokens_per_second"}
    assert all(names <= set(row) for row in rows)
    # 5 micro-batches an epoch: windows of 2, 2, 1, then 2 of the next epoch.
    assert [row["epoch"] for row in rows] == [0.4, 0.8, 1.0, 1.4, 1.8]
    assert [row["learning_rate"] for row in rows] == pytest.approx([1e-3, 8e-4, 6e-4, 4e-4, 2e-4])
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert json.loads((run_dir / "train_results.json").read_text())["train_loss"] == pytest.approx(
        sum(row["loss"] for row in rows) / 5
    )
    assert (run_dir / "loss_curve.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert any("tfevents" in name for name in os.listdir(run_dir / "runs"))


FULL = {"neftune_noise_alpha": 5.0, "lr_scheduler_type": "constant", "warmup_steps": 2}
LORA = {
    "use_peft": True,
    "lora_r": 4,
    "lora_dropout": 0.3,
    "learning_rate": 1e-2,
    "gradient_checkpointing": True,
}
BF16 = {"dtype": "bfloat16", "neftune_noise_alpha": 5.0}


@pytest.mark.parametrize("keys", [FULL, LORA, BF16], ids=["full", "lora", "bf16"])
def test_resume_is_bit_for_bit(train: Train, tmp_path: Path, keys: dict[str, Any]) -> None:
    keys = {**keys, "lr_scheduler_type": "constant"}
    whole = tmp_path / "whole"
    train(**keys, output_dir=str(whole))
    for stop in (2, 3):  # in the middle of an epoch, and at its edge
        parts = tmp_path / f"parts-{stop}"
        train(**keys, output_dir=str(parts), max_steps=stop)
        train(**keys, output_dir=str(parts), resume_from_checkpoint=True)
        assert _losses(parts) == _losses(whole)
        assert _weights(parts) == _weights(whole)
        one, other = (files.read_json(d / "checkpoint-5" / "manifest.json")["files"] for d in (whole, parts))
        for name in ("optimizer.safetensors", "rank_0.json"):
            assert one[name] == other[name], name


def test_changes_on_resume_can_be_allowed(train: Train, tmp_path: Path) -> None:
    train(max_steps=1)
    result = train(learning_rate=5e-4, resume_from_checkpoint=True, resume_allow_changes=["learning_rate"])
    assert result.metrics["learning_rate"] == pytest.approx(1e-4)


def test_resume_from_an_older_checkpoint_rewrites_what_came_after(train: Train, tmp_path: Path) -> None:
    train(save_steps=2)
    before = _losses(tmp_path / "run"), _weights(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").open("a").write('{"step": 6, "lo')  # a killed run's torn line
    with pytest.raises(CheckpointError, match=r"holds a finished run .newest checkpoint: step 5"):
        train(save_steps=2)
    train(save_steps=2, resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert (_losses(tmp_path / "run"), _weights(tmp_path / "run")) == before


def test_resume_passes_over_a_damaged_checkpoint(train: Train, tmp_path: Path) -> None:
    train(save_steps=2)
    before = _losses(tmp_path / "run"), _weights(tmp_path / "run")
    path = tmp_path / "run" / "checkpoint-5" / "optimizer.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"optimizer\.safetensors has changed.*Going on from checkpoint-4"):
        train(save_steps=2, resume_from_checkpoint=True)
    assert (_losses(tmp_path / "run"), _weights(tmp_path / "run")) == before


def test_resume_with_other_settings_or_data_shows_the_difference(train: Train, tmp_path: Path) -> None:
    train(max_steps=2)
    with pytest.raises(CheckpointError, match=r"learning_rate: 0\.001 -> 0\.01"):
        train(learning_rate=0.01, resume_from_checkpoint=True)
    data = tmp_path / "train.jsonl"
    data.write_text("".join(data.read_text().splitlines(keepends=True)[:9]))
    recipe_keys = {"resume_from_checkpoint": True, "dataset_name": str(data)}
    other = tmp_path / "other.jsonl"
    other.write_text(data.read_text())
    with pytest.raises(CheckpointError, match="data: content"):
        train(**{**recipe_keys, "dataset_name": str(other)})


def test_resume_without_a_checkpoint_starts_at_the_beginning(train: Train, tmp_path: Path) -> None:
    assert train(resume_from_checkpoint=True, max_steps=1).steps == 1


def test_resuming_a_finished_run_keeps_its_results(train: Train, tmp_path: Path) -> None:
    keys = {"eval_dataset_name": str(tmp_path / "train.jsonl"), "max_steps": 2}
    first = train(**keys).metrics
    again = train(**keys, resume_from_checkpoint=True).metrics
    assert {**first, "train_runtime": 0} == {**again, "train_runtime": 0} and "eval_loss" in again


def test_overwriting_leaves_nothing_of_another_kind_of_model(train: Train, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    train(max_steps=1, use_peft=True)
    assert (run_dir / "adapter_config.json").exists()
    train(max_steps=1, overwrite_output_dir=True)
    whole = {name for name in os.listdir(run_dir) if name.endswith((".json", ".safetensors", ".jinja"))}
    assert "model.safetensors" in whole and not {name for name in whole if name.startswith("adapter")}
    train(max_steps=1, overwrite_output_dir=True, use_peft=True)
    assert not (run_dir / "config.json").exists() and (run_dir / "adapter_config.json").exists()


def test_overwriting_deletes_the_run_and_nothing_else(train: Train, tmp_path: Path) -> None:
    train(max_steps=2)
    (tmp_path / "run" / "notes.txt").write_text("mine")
    train(max_steps=1, overwrite_output_dir=True)
    assert [step for step, _ in _losses(tmp_path / "run")] == [1]
    assert not (tmp_path / "run" / "checkpoint-2").exists()
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_evaluation_is_logged_and_changes_nothing(train: Train, tmp_path: Path) -> None:
    train(output_dir=str(tmp_path / "without"), neftune_noise_alpha=5.0)
    finals = []
    keys = {"eval_dataset_name": str(tmp_path / "train.jsonl"), "neftune_noise_alpha": 5.0}
    for size in (2, 8):
        run_dir = tmp_path / f"with-{size}"
        result = train(**keys, eval_steps=2, per_device_eval_batch_size=size, output_dir=str(run_dir))
        evals = [row for row in jsonl.read(run_dir / "metrics.jsonl") if "eval_loss" in row]
        assert [row["step"] for row in evals] == [2, 4, 5]
        assert evals[0]["eval_loss"] > evals[-1]["eval_loss"] == result.metrics["eval_loss"]
        assert _losses(run_dir) == _losses(tmp_path / "without")
        finals.append(evals[-1]["eval_loss"])
    assert finals[0] == pytest.approx(finals[1], rel=1e-6)


def test_a_signal_finishes_the_step_saves_and_is_told(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(output_dir=str(tmp_path / "whole"))
    step = Stepper.__call__

    def interrupted(self: Stepper, *args: Any) -> Any:
        if self._optimizer.steps() and max(self._optimizer.steps().values()) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *args)

    monkeypatch.setattr(Stepper, "__call__", interrupted)
    result = train(output_dir=str(tmp_path / "parts"))
    monkeypatch.setattr(Stepper, "__call__", step)
    assert (result.steps, result.interrupted_by, result.exit_code) == (3, signal.SIGTERM, 143)
    assert "stopped by SIGTERM after step 3, which is saved" in capsys.readouterr().out
    train(output_dir=str(tmp_path / "parts"), resume_from_checkpoint=True)
    assert _losses(tmp_path / "parts") == _losses(tmp_path / "whole")
    assert _weights(tmp_path / "parts") == _weights(tmp_path / "whole")


def test_control_c_while_saving_keeps_a_whole_checkpoint(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = files._seal

    def interrupted(directory: Path, facts: dict[str, Any]) -> None:
        if facts.get("step") == 2:
            os.kill(os.getpid(), signal.SIGINT)
        seal(directory, facts)

    monkeypatch.setattr(files, "_seal", interrupted)
    result = train(save_steps=2)
    assert (result.steps, result.exit_code) == (3, 130)  # the signal came in step 2's save
    for step in (2, 3):
        assert files.verify(tmp_path / "run" / f"checkpoint-{step}")["step"] == step


def test_a_full_disk_stops_training_and_keeps_the_last_checkpoint(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = files._seal

    def full(directory: Path, facts: dict[str, Any]) -> None:
        if facts.get("step") == 4:
            raise OSError(28, "No space left on device")
        seal(directory, facts)

    monkeypatch.setattr(files, "_seal", full)
    with pytest.raises(CheckpointError, match=r"checkpoint-4 could not be written: the disk is full"):
        train(save_steps=2, save_total_limit=1)
    names = [name for name in os.listdir(tmp_path / "run") if "checkpoint" in name]
    assert names == ["checkpoint-2"]
    monkeypatch.setattr(files, "_seal", seal)
    train(save_steps=2, resume_from_checkpoint=True)
    assert [step for step, _ in _losses(tmp_path / "run")] == [1, 2, 3, 4, 5]


def test_ten_steps_in_a_row_that_are_not_finite_end_the_run(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hetero.train.algorithms.sft import SFT
    from hetero.train.errors import TrainingError

    loss = SFT.loss

    def poisoned(self: SFT, model: Any, batch: Any, items: Any) -> Any:
        value, sums = loss(self, model, batch, items)
        return value * (float("nan") if poisoned.calls >= 4 else 1.0), sums  # type: ignore[attr-defined]

    poisoned.calls = 0  # type: ignore[attr-defined]

    def counted(self: SFT, *args: Any) -> Any:
        poisoned.calls += 1  # type: ignore[attr-defined]
        return poisoned(self, *args)

    monkeypatch.setattr(SFT, "loss", counted)
    with pytest.raises(TrainingError, match="10 times in a row"):
        train(max_steps=40, gradient_accumulation_steps=1)
    rows = jsonl.read(tmp_path / "run" / "metrics.jsonl")
    assert [row["loss"] is None for row in rows] == [False] * 3 + [True] * 10
    assert rows[-1]["skipped_steps"] == 10


def test_packed_rows_train(train: Train, tmp_path: Path) -> None:
    train(packing=True, per_device_train_batch_size=1)
    losses = [loss for _, loss in _losses(tmp_path / "run")]
    assert losses[-1] < losses[0]


def test_no_file_of_a_checkpoint_is_a_pickle(train: Train, tmp_path: Path) -> None:
    train(max_steps=1)
    for path in (tmp_path / "run" / "checkpoint-1").iterdir():
        assert path.suffix in (".json", ".jinja", ".safetensors"), path
        assert path.stat().st_mode & 0o044, f"{path} can be read by its owner only"
        with pytest.raises((ValueError, IndexError, KeyError, UnicodeDecodeError)):
            list(pickletools.genops(path.read_bytes()))


def test_a_second_run_in_the_same_directory_is_refused_at_once(train: Train, tmp_path: Path) -> None:
    with RunLock(tmp_path / "run"), pytest.raises(CheckpointError, match="is in use by another run"):
        train()
    assert not (tmp_path / "run" / "recipe.yaml").exists()
    train(max_steps=1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB: room for two checkpoints of the tiny model, not for three."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_really_full_disk(train: Train, small_disk: Path) -> None:
    with pytest.raises(CheckpointError, match="could not be written: the disk is full"):
        train(output_dir=str(small_disk / "run"), save_steps=1)
    kept = sorted(name for name in os.listdir(small_disk / "run") if "checkpoint" in name)
    assert kept == ["checkpoint-1", "checkpoint-2"]
    assert files.verify(small_disk / "run" / "checkpoint-2")["step"] == 2
    assert [step for step, _ in _losses(small_disk / "run")] == [1, 2, 3]


def test_grouped_by_length(train: Any) -> None:
    assert train(group_by_length=True, max_steps=2).steps == 2
