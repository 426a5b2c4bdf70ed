"""Packed documents do not see each other: each token's log-probability is that of its document alone."""

from __future__ import annotations

import pytest
import torch

from hetero.train.patching import patch

LENGTHS = (17, 9, 23)


def log_probs(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.float(), -1)[:-1].gather(-1, ids[1:, None])[:, 0]


def worst_difference(model, documents: list[torch.Tensor], **inputs) -> float:
    packed = torch.cat(documents)[None]
    positions = torch.cat([torch.arange(len(d)) for d in documents])[None]
    with torch.no_grad():
        logits = model(packed, position_ids=positions, **inputs).logits[0].split([len(d) for d in documents])
        alone = [model(d[None], use_cache=False).logits[0] for d in documents]
    return max(
        float((log_probs(a, d) - log_probs(b, d)).abs().max())
        for a, b, d in zip(logits, alone, documents, strict=True)
    )


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(
    "family", ["llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text", "phi3"]
)
def test_no_leak(build, tokens, family, attention):
    model = build(family)
    if attention == "sdpa" and not model._supports_sdpa:
        pytest.skip("its attention caps the scores, which SDPA cannot")
    model.set_attn_implementation(attention)
    patch(model)
    documents = list(tokens(1, sum(LENGTHS), seed=3)[0].split(LENGTHS))
    # The same sums with zeros added: float32 rounding and nothing more.
    assert worst_difference(model, documents, use_cache=False) < 1e-5
    # And the measure does see a leak: a mask switches Transformers' isolation off.
    ones = torch.ones(1, sum(LENGTHS), dtype=torch.long)
    assert worst_difference(model, documents, use_cache=False, attention_mask=ones) > 1e-3
