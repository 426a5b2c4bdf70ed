import json
import os
from pathlib import Path

import pytest
import torch

from hetero.errors import CheckpointError
from hetero.train.checkpoint import files, weights


def _write(final: Path, value: float = 1.0) -> Path:
    with files.committing(final, step=3) as work:
        tensors = {"a": torch.full((300,), value), "b": torch.arange(7)}
        weights.save_tensors(tensors, work / "model.safetensors")
        files.write_json(work / "state.json", {"x": value})
    return final


def test_commit_then_verify(tmp_path: Path) -> None:
    final = _write(tmp_path / "checkpoint-3")
    manifest = files.verify(final)
    assert manifest["step"] == 3
    assert set(manifest["files"]) == {"model.safetensors", "state.json"}
    assert os.listdir(tmp_path) == ["checkpoint-3"]


def test_failure_inside_leaves_nothing_and_keeps_the_old_one(tmp_path: Path) -> None:
    final = _write(tmp_path / "c", 1.0)
    with pytest.raises(ZeroDivisionError), files.committing(final) as work:
        (work / "half").write_text("x")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["c"]
    assert files.read_json(final / "state.json") == {"x": 1.0}
    files.verify(final)


def test_replaces_an_older_one_of_the_same_name(tmp_path: Path) -> None:
    _write(tmp_path / "c", 1.0)
    _write(tmp_path / "c", 2.0)
    assert files.read_json(tmp_path / "c" / "state.json") == {"x": 2.0}
    assert os.listdir(tmp_path) == ["c"]


@pytest.mark.parametrize("offset", [-1, -900, 200])
def test_one_flipped_bit_is_named(tmp_path: Path, offset: int) -> None:
    final = _write(tmp_path / "c")
    path = final / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"damaged: model\.safetensors has changed"):
        files.verify(final)


def test_truncated_missing_and_extra_files_are_all_listed(tmp_path: Path) -> None:
    final = _write(tmp_path / "c")
    path = final / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    (final / "state.json").rename(final / "other.json")
    with pytest.raises(CheckpointError) as caught:
        files.verify(final)
    message = str(caught.value)
    assert "state.json is missing" in message
    assert "other.json does not belong to it" in message
    size = path.stat().st_size
    assert f"model.safetensors has {size} bytes instead of {size + 4}" in message


def test_without_a_manifest_it_is_not_a_checkpoint(tmp_path: Path) -> None:
    final = _write(tmp_path / "c")
    (final / files.MANIFEST).unlink()
    assert not files.complete(final)
    with pytest.raises(CheckpointError, match="not a complete checkpoint"):
        files.verify(final)


def test_manifest_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    final = _write(tmp_path / "c")
    manifest = json.loads((final / files.MANIFEST).read_text())
    (final / files.MANIFEST).write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(CheckpointError, match="not of format 1"):
        files.verify(final)


def test_os_errors_become_checkpoint_errors(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="disk is full"), files.committing(tmp_path / "c") as work:
        (work / "half").write_text("x")
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_a_directory_in_a_missing_or_forbidden_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    final = tmp_path / "file" / "c"
    with pytest.raises(CheckpointError, match="could not be written"), files.committing(final):
        pass


def test_unfinished_writes_are_swept_away(tmp_path: Path) -> None:
    _write(tmp_path / "checkpoint-1")
    (tmp_path / ".writing-checkpoint-2").mkdir()
    (tmp_path / ".writing-checkpoint-2" / "model.safetensors").write_text("torn")
    files.remove_unfinished(tmp_path)
    assert os.listdir(tmp_path) == ["checkpoint-1"]


def test_nan_cannot_get_into_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "x.json", float("nan"))
