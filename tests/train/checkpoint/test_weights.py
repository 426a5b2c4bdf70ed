from pathlib import Path

import pytest
import torch

from hetero.errors import CheckpointError
from hetero.train.checkpoint import weights
from hetero.train.model.lora import add_lora
from hetero.train.model.tiny import tiny_model, tiny_tokenizer


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    model = tiny_model(tiny_tokenizer(), seed=1)
    weights.write(model, tmp_path)
    names = set(weights.load_tensors(tmp_path / weights.MODEL))
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names
    other = tiny_model(tiny_tokenizer(), seed=2)
    weights.read(other, tmp_path)
    assert other.lm_head.weight is other.model.embed_tokens.weight
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_whole_model_loads_with_transformers(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = tiny_model(tiny_tokenizer(), seed=1)
    weights.write(model, tmp_path)
    plain = AutoModelForCausalLM.from_pretrained(str(tmp_path))
    ids = torch.arange(9).unsqueeze(0)
    assert torch.equal(plain.eval()(ids).logits, model.eval()(ids).logits)


def test_only_the_adapter_of_a_lora_model(tmp_path: Path) -> None:
    model = add_lora(tiny_model(tiny_tokenizer()), r=2, seed=1)
    weights.write(model, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {weights.ADAPTER, "adapter_config.json"}
    assert all("lora_" in name for name in weights.load_tensors(tmp_path / weights.ADAPTER))
    assert not model.peft_config["default"].inference_mode  # the live one is still being trained
    other = add_lora(tiny_model(tiny_tokenizer()), r=2, seed=2)
    weights.read(other, tmp_path)
    for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_what_does_not_fit_is_listed(tmp_path: Path) -> None:
    weights.write(tiny_model(tiny_tokenizer()), tmp_path)
    with pytest.raises(CheckpointError, match=r"model\.layers\.2\.\S+ is missing"):
        weights.read(tiny_model(tiny_tokenizer(), layers=3), tmp_path)
    with pytest.raises(CheckpointError, match=r"has shape \(512, 128\), the model \(512, 64\)"):
        weights.read(tiny_model(tiny_tokenizer(), hidden=64), tmp_path)
    (tmp_path / weights.MODEL).unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing"):
        weights.read(tiny_model(tiny_tokenizer()), tmp_path)
