import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import hetero
from hetero.errors import CheckpointError, ModelError
from hetero.train import export as exporting
from hetero.train.export import export, probe
from hetero.train.model import load

LORA = {"use_peft": True, "lora_r": 4, "learning_rate": 1e-2, "max_steps": 2}


def _plain(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(str(folder), dtype="auto").eval()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_run_and_its_checkpoint_export_to_the_same_plain_folder(
    train: Callable[..., Any], tmp_path: Path, dtype: str
) -> None:
    from transformers import AutoTokenizer

    train(dtype=dtype, max_steps=2)
    trained = _plain(tmp_path / "run")
    assert trained.dtype == getattr(torch, dtype)
    for source in ("run", "run/checkpoint-2"):
        out = export(tmp_path / source, tmp_path / "out" / source)
        assert torch.equal(probe(_plain(out)), probe(trained))
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= {p.name for p in out.iterdir()}
        assert not any(p.name in ("manifest.json", "optimizer.safetensors") for p in out.iterdir())
    # The template goes through unchanged.
    original = load.__globals__["tiny"].tiny_tokenizer()
    assert AutoTokenizer.from_pretrained(str(out)).chat_template == original.chat_template


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_adapter_exports_for_peft_and_merged(
    train: Callable[..., Any], make_recipe: Callable[..., Any], tmp_path: Path, dtype: str
) -> None:
    from peft import PeftModel

    train(**LORA, dtype=dtype)
    base, _ = load(make_recipe(dtype=dtype), hetero.device("cpu"))
    before = probe(base.eval())
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        adapter = export(tmp_path / "run", tmp_path / "adapter")
    assert {"adapter_config.json", "adapter_model.safetensors"} <= {p.name for p in adapter.iterdir()}
    expected = probe(PeftModel.from_pretrained(base, str(adapter)).eval())
    assert (expected - before).abs().max() > 1e-2  # it has learnt something
    merged = probe(_plain(export(tmp_path / "run" / "checkpoint-2", tmp_path / "merged", merge=True)))
    close = 1e-5 if dtype == "float32" else 2e-2
    torch.testing.assert_close(merged, expected, rtol=0, atol=close * float(expected.abs().max()))


def test_what_cannot_be_exported_is_said(train: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds neither a model nor a checkpoint"):
        export(tmp_path, tmp_path / "out")
    train(max_steps=1)
    with pytest.raises(CheckpointError, match="no adapter to merge"):
        export(tmp_path / "run", tmp_path / "out", merge=True)
    with pytest.raises(CheckpointError, match="exists already and is not empty"):
        export(tmp_path / "run", tmp_path / "run")
    path = tmp_path / "run" / "checkpoint-1" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors has changed"):
        export(path.parent, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_loads_back_differently_is_not_kept(
    train: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(max_steps=1)
    save = exporting.save_model

    def damaging(model: Any, tokenizer: Any, directory: Path) -> None:
        with torch.no_grad():
            model.model.norm.weight.mul_(1.5)
            save(model, tokenizer, directory)

    monkeypatch.setattr(exporting, "save_model", damaging)
    with pytest.raises(ModelError, match="writing the folder changed the logits by"):
        export(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()
