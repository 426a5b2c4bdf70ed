"""Loading a model: what a recipe asks for arrives, and what is wrong is said before or instead."""

from __future__ import annotations

import json

import pytest
import torch

from hetero.errors import ModelError
from hetero.train.model import resolve_dtype
from hetero.train.model.tiny import tiny_model, tiny_tokenizer


def test_builtin_takes_the_seed_of_the_recipe(load):
    model, tokenizer = load(seed=1)
    expected = tiny_model(tokenizer, seed=1).state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())
    assert model.training and model.config._attn_implementation == "sdpa"


def test_folder_gives_the_saved_weights_in_the_dtype_asked_for(load, saved_model):
    expected = tiny_model(tiny_tokenizer(), "llama", hidden=32, seed=3)
    model, tokenizer = load(saved_model)
    assert tokenizer.chat_template == tiny_tokenizer().chat_template
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), expected.parameters(), strict=True))
    half, _ = load(saved_model, dtype="bfloat16", attn_implementation="eager")
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    assert half.config._attn_implementation == "eager"
    assert half.lm_head.weight is half.model.embed_tokens.weight


def test_a_saved_model_has_the_configuration_it_was_loaded_with(load, saved_model, tmp_path):
    model, _ = load(saved_model)
    model.save_pretrained(tmp_path / "out")
    read = [json.loads((folder / "config.json").read_text()) for folder in (saved_model, tmp_path / "out")]
    assert read[0] == read[1]


def test_lora_is_added_and_reproducible(load):
    options = {"use_peft": True, "lora_r": 4, "lora_dropout": 0.0, "seed": 5}
    first, second = load(**options)[0], load(**options)[0]
    assert any("lora_A" in name for name, _ in first.named_parameters())
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))


def test_tokenizer_longer_than_the_embedding(load, model_folder):
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<extra>", "<more>"])
    tokenizer.save_pretrained(model_folder)
    with pytest.raises(ModelError, match="ids up to 513, but the model has 512 embedding rows"):
        load(model_folder)
    model, tokenizer = load(model_folder, resize_token_embeddings=True)
    assert model.get_input_embeddings().weight.shape[0] == model.config.vocab_size == 514
    assert model.lm_head.weight is model.get_input_embeddings().weight
    assert model(torch.tensor([[513]])).logits.shape[-1] == 514


def test_weights_that_the_configuration_asks_for_but_the_files_lack(load, model_folder):
    config = json.loads((model_folder / "config.json").read_text())
    config["num_hidden_layers"] = 3
    (model_folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"lack \d+ tensors.*layers\.2\."):
        load(model_folder)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"name": "hetero:tiny-bert"}, "no builtin model 'hetero:tiny-bert'"),
        ({"name": "/nowhere/model"}, "/nowhere/model does not exist"),
        ({"name": "no-such-organisation/model"}, "no folder of that name here"),
        ({"max_length": 4096}, "max_length is 4096, but the model was made for 1024"),
        ({"eos_token": "<stop>"}, "'<stop>' is not in the tokenizer's vocabulary"),
        ({"attn_implementation": "sdpaa"}, "sdpaa"),
    ],
)
def test_mistakes_are_model_errors(load, keys, message):
    with pytest.raises(ModelError, match=message):
        load(**keys)


def test_unknown_attention_of_a_folder(load, saved_model):
    with pytest.raises(ModelError, match="sdpaa"):
        load(saved_model, attn_implementation="sdpaa")


def test_broken_configuration_names_the_model(load, model_folder):
    (model_folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match=str(model_folder)):
        load(model_folder)


def test_dtypes():
    assert resolve_dtype(None) is resolve_dtype("torch.float32") is torch.float32
    assert resolve_dtype("bf16") is torch.bfloat16
    with pytest.raises(ModelError, match="int8"):
        resolve_dtype("int8")
