"""Damaged and incomplete model folders are named before anything is loaded."""

from __future__ import annotations

import json

import pytest

from hetero.errors import ModelError
from hetero.train.model.folder import check_folder, is_local, weight_files


def test_a_whole_folder_passes(saved_model):
    check_folder(saved_model)
    assert [file.name for file in weight_files(saved_model)] == ["model.safetensors"]


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_truncated_weights_are_named(model_folder, kept):
    file = model_folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"model\.safetensors is (damaged|truncated)"):
        check_folder(model_folder)


@pytest.mark.parametrize(
    "bad", [b"\xff" * 64, b"\x02" + b"\0" * 7 + b"[]", b"\x08" + b"\0" * 7 + b'{"a": 1}']
)
def test_overwritten_header_is_named(model_folder, bad):
    (model_folder / "model.safetensors").write_bytes(bad)
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        check_folder(model_folder)


def test_appended_bytes_are_named(model_folder):
    with (model_folder / "model.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ModelError, match="longer than its header says"):
        check_folder(model_folder)


def test_missing_and_broken_shards(model_folder):
    (model_folder / "model.safetensors").rename(model_folder / "a.safetensors")
    index = model_folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}))
    with pytest.raises(ModelError, match=r"lacks 1 of 2 weight files: b\.safetensors"):
        check_folder(model_folder)
    index.write_text("{")
    with pytest.raises(ModelError, match="not a valid safetensors index"):
        check_folder(model_folder)


def test_what_is_not_a_model_folder(model_folder, tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        check_folder(tmp_path / "absent")
    with pytest.raises(ModelError, match="is a file"):
        check_folder(model_folder / "config.json")
    (model_folder / "config.json").unlink()
    with pytest.raises(ModelError, match="not a model folder"):
        check_folder(model_folder)
    (model_folder / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="LoRA adapter"):
        check_folder(model_folder)


def test_pickled_weights_are_refused(model_folder):
    (model_folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="weights are missing"):
        check_folder(model_folder)
    (model_folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="pickled"):
        check_folder(model_folder)


def test_paths_and_hub_names(model_folder, monkeypatch):
    monkeypatch.chdir(model_folder.parent)
    assert all(is_local(name) for name in (str(model_folder), "tiny", "./x", "~/x", "/a", "a/b/c"))
    assert not is_local("organisation/model") and not is_local("gpt2")
    assert not is_local("a" * 300) and is_local("~no such user/x")
