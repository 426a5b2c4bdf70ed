"""Checks of a Transformers model folder that cost milliseconds and are made before anything is loaded."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

from hetero.errors import ModelError

MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors format


def is_local(name: str) -> bool:
    """Whether a model name means a folder of this machine rather than `organisation/model` on the Hub."""
    path = Path(os.path.expanduser(name))
    looks_like_path = name.startswith((".", "~")) or path.is_absolute() or len(path.parts) > 2
    return looks_like_path or os.path.exists(path)


def check_folder(path: Path) -> None:
    """Raise ModelError unless `path` holds a model configuration and whole safetensors files.

    Only headers are read: a file cut short by a full disk or a broken download is named here, instead of
    surfacing as a deserialisation error minutes later.
    """
    if not path.exists():
        raise ModelError(f"model folder {path} does not exist; check model_name_or_path")
    if not path.is_dir():
        raise ModelError(f"model_name_or_path: {path} is a file; give the folder that holds config.json")
    if not (path / "config.json").is_file():
        hint = "it is not a model folder"
        if (path / "adapter_config.json").is_file():
            hint = "it is a LoRA adapter: merge it first, or give its base model"
        raise ModelError(f"{path} has no config.json: {hint}")
    for file in weight_files(path):
        check_safetensors(file)


def weight_files(path: Path) -> list[Path]:
    """The safetensors files that make up the model in `path`, by its index when it is sharded."""
    index = path / "model.safetensors.index.json"
    if index.is_file():
        try:
            shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, AttributeError) as error:
            raise ModelError(f"{index} is not a valid safetensors index: {error!r}; copy it again") from error
        missing = [shard for shard in shards if not (path / shard).is_file()]
        if missing:
            raise ModelError(f"{path} lacks {len(missing)} of {len(shards)} weight files: {missing[0]}, ...")
        return [path / shard for shard in shards]
    single = path / "model.safetensors"
    if single.is_file():
        return [single]
    if any(path.glob("pytorch_model*.bin")):
        raise ModelError(
            f"{path} holds only pickled weights (pytorch_model.bin), which can run code when opened; "
            "convert them to safetensors first (model.save_pretrained writes that format)"
        )
    raise ModelError(f"{path} has a config.json but no model.safetensors: the weights are missing")


def check_safetensors(file: Path) -> None:
    """Raise ModelError naming `file` when its header is unreadable or its length is not what that says."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        prefix = stream.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MAX_HEADER_BYTES + 1
        if length > min(MAX_HEADER_BYTES, size - 8):
            raise ModelError(f"{file} is damaged: {size} bytes without a whole header; copy it again")
        try:
            header = json.loads(stream.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{file} is damaged: its header cannot be read; copy it again") from error
    expected = 8 + length + max(ends, default=0)
    if size != expected:
        state = "truncated" if size < expected else "longer than its header says"
        raise ModelError(f"{file} is {state}: {size} bytes instead of {expected}; copy it again")
