"""The quickstart as a whole: on the builtin tiny model, which cannot learn the task in two steps."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import hetero
from hetero.errors import HeteroError
from hetero.quickstart import model as models
from hetero.quickstart import run as quickstart
from hetero.quickstart import task
from hetero.train.model.tiny import tiny_model, tiny_tokenizer


@pytest.fixture
def tiny_base(problems: task.Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny model in place of the real one, and the small task in place of the big one."""
    tokenizer = tiny_tokenizer()
    tiny_model(tokenizer, "llama").save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    monkeypatch.setattr(models, "base_model", lambda cache, say: tmp_path / "tiny")
    monkeypatch.setattr(task, "build", lambda: problems)
    return tmp_path


def test_the_exit_code_tells_of_a_missed_margin(tiny_base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quickstart.run(hetero.device("cpu"), tiny_base, steps=2) == 1
    printed = capsys.readouterr().out
    assert "It learned too little" in printed
    run_dir = tiny_base / "runs" / "quickstart"
    assert {"loss_curve.png", "adapter_model.safetensors", "metrics.jsonl"} <= set(os.listdir(run_dir))
    report = json.loads((run_dir / "quickstart.json").read_text(encoding="utf-8"))
    assert report["steps"] == 2
    assert report["passed"] is False
    assert report["tokens_per_second"] > 0
    assert set(report["seconds"]) == {"model", "before", "train", "after", "total"}


def test_the_untrained_models_answers_are_kept(tiny_base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = []
    for _ in range(2):
        quickstart.run(hetero.device("cpu"), tiny_base, steps=1)
        # The width of the terminal decides where lines break.
        kept.append("kept from an earlier run" in " ".join(capsys.readouterr().out.split()))
    assert kept == [False, True]
    assert len(list((tiny_base / ".cache" / "quickstart").glob("before-*.json"))) == 1


def test_a_missing_recipe_is_explained(tiny_base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quickstart, "RECIPE", tiny_base / "quickstart.yaml")
    with pytest.raises(HeteroError, match="runs in a clone of the repository"):
        quickstart.run(hetero.device("cpu"), tiny_base / "elsewhere")
    assert not (tiny_base / "elsewhere").exists()  # said before any download


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_real_model_learns(tmp_path: Path) -> None:
    """The README's promise, kept. The model comes from the repository's cache when it is there."""
    cache = quickstart.RECIPE.parents[1] / ".cache"
    cache.mkdir(exist_ok=True)
    (tmp_path / ".cache").symlink_to(cache)
    assert quickstart.run(hetero.device("cpu"), tmp_path) == 0
