import pytest
import torch
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
)

from hetero.errors import ModelError
from hetero.train.model.head import LMHead, check_head
from hetero.train.model.lora import add_lora
from hetero.train.model.tiny import tiny_model, tiny_tokenizer

SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _family(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if name == "cohere":
        return CohereForCausalLM(CohereConfig(**SHAPE, logit_scale=0.25))
    if name == "granite":
        return GraniteForCausalLM(GraniteConfig(**SHAPE, logits_scaling=8.0))
    return Gemma2ForCausalLM(Gemma2Config(**SHAPE, final_logit_softcapping=0.05))


@pytest.mark.parametrize(
    ("name", "scale", "softcap"), [("cohere", 0.25, None), ("granite", 0.125, None), ("gemma2", 1.0, 0.05)]
)
def test_scaled_and_capped_heads_give_the_models_own_logits(
    name: str, scale: float, softcap: float | None
) -> None:
    model = _family(name)
    head = LMHead.of(model)
    assert (head.scale, head.softcap) == (scale, softcap)
    check_head(model)


def test_a_model_that_does_more_to_its_logits_is_refused() -> None:
    model = tiny_model(tiny_tokenizer())
    model.lm_head.register_forward_hook(lambda module, args, logits: logits * 1.01)
    with pytest.raises(ModelError, match="changes its logits in a way that the fused loss does not know"):
        check_head(model)


def test_checking_leaves_mode_and_random_numbers_alone() -> None:
    model = tiny_model(tiny_tokenizer()).train()
    before = torch.get_rng_state()
    check_head(model)
    assert model.training
    assert torch.equal(before, torch.get_rng_state())


def test_lora_on_the_layers_is_seen_and_on_the_head_refused() -> None:
    from peft import LoraConfig, get_peft_model

    model = add_lora(tiny_model(tiny_tokenizer()), r=2)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    check_head(model)
    config = LoraConfig(r=2, target_modules=["lm_head"], task_type="CAUSAL_LM")
    with pytest.raises(ModelError, match="adapter covers the output layer"):
        LMHead.of(get_peft_model(tiny_model(tiny_tokenizer()), config))
