"""LoRA: what is trained, in which dtype, and what is refused."""

from __future__ import annotations

import pytest
import torch

from hetero.errors import ModelError
from hetero.train.model.lora import add_lora, trainable_report
from hetero.train.model.tiny import tiny_model, tiny_tokenizer


@pytest.fixture
def model():
    return tiny_model(tiny_tokenizer(), hidden=32)


def untied(model):
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    return model


def test_all_linear_layers_but_the_head(model):
    ids = torch.arange(8)[None]
    expected = model(ids).logits
    wrapped = add_lora(model, r=4, alpha=8)
    adapted = {
        name.split(".lora_A")[0].rsplit(".", 1)[1]
        for name, _ in wrapped.named_parameters()
        if "lora_A" in name
    }
    assert adapted == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert torch.equal(wrapped(ids).logits, expected)  # B starts at zero
    # r * (inputs + outputs) of each layer: q and o 32x32, k and v 32x16, gate, up and down 32x96
    assert trainable_report(wrapped).trainable == 2 * 4 * (2 * 64 + 2 * 48 + 3 * 128)


def test_adapters_have_the_dtype_of_the_base(model):
    report = trainable_report(add_lora(model.bfloat16()))
    assert report.dtypes == ("bfloat16",)
    assert "bfloat16" in str(report) and f"{report.trainable:,} of {report.total:,}" in str(report)


def test_initialisation_depends_on_its_seed_only():
    def adapters(seed):
        model = add_lora(
            tiny_model(tiny_tokenizer(), hidden=32), target_modules=["q_proj", "v_proj"], seed=seed
        )
        return [p for name, p in model.named_parameters() if "lora_A" in name]

    state = torch.random.get_rng_state()
    first = adapters(1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first, adapters(1), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, adapters(2), strict=True))


def test_modules_trained_in_full(model):
    wrapped = add_lora(
        untied(model), target_modules="q_proj, v_proj", modules_to_save=["embed_tokens", "norm"]
    )
    trained = {name for name, p in wrapped.named_parameters() if p.requires_grad}
    assert any("embed_tokens.modules_to_save" in name for name in trained)
    assert any("norm.modules_to_save" in name for name in trained)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"target_modules": ["q_porj"]}, "no module 'q_porj'; did you mean 'q_proj'"),
        ({"target_modules": ["zzz"]}, "no module 'zzz'; there are: .*q_proj"),
        ({"target_modules": ["q_proj", "lm_head"]}, "names the head 'lm_head'"),
        ({"modules_to_save": ["lm_head"]}, "names the head 'lm_head'"),
        ({"modules_to_save": ["embed_tokens"]}, "weight is also the head's"),
    ],
)
def test_refusals(model, keys, message):
    with pytest.raises(ModelError, match=message):
        add_lora(model, **keys)
