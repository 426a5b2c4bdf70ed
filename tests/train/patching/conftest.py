"""Tiny random instances of the model families that tests patch, as fixtures `build` and `tokens`."""

from __future__ import annotations

import pytest
import torch
import transformers

VOCABULARY = 97
FAMILIES = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 8},
    "mistral": {},
    "gemma": {"head_dim": 8},
    "gemma2": {"head_dim": 8, "sliding_window": 6},
    "gemma3_text": {"head_dim": 8, "sliding_window": 6},
    "phi3": {},
    "phi": {},
    "granite": {"residual_multiplier": 0.5},
    "cohere": {},
    "glm": {"head_dim": 8},
    "qwen3_moe": {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
}


def _build(family: str, **overrides) -> torch.nn.Module:
    """A float32 causal LM of two layers, hidden size 32, whose weights (norms too) are all random."""
    config = transformers.AutoConfig.for_model(
        family,
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **{**FAMILIES[family], **overrides},
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
    return model.eval()


def _tokens(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    """Random token ids [rows, length], special tokens left out."""
    return torch.randint(3, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="session")
def build():
    return _build


@pytest.fixture(scope="session")
def tokens():
    return _tokens
