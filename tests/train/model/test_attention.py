"""``attn_implementation="hetero"``: what it answers for a mask, and that models compute the same with it."""

from __future__ import annotations

import pytest
import torch

from hetero import ops
from hetero.errors import ModelError
from hetero.train.model import attention
from hetero.train.patching import patch, unpatch
from tests.train.patching.conftest import _build, _tokens

PACKED = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 0], [0, 1, 2, 3, 4, 5, 6, 7]])


@pytest.fixture(params=["llama", "gemma3_text"])
def models(request):
    """One with Transformers' sdpa and one with hetero's attention; layers with and without a sliding window."""
    theirs, ours = _build(request.param), _build(request.param)
    report = patch(ours)
    assert report.swapped["attention"] == 2 and ours.config._attn_implementation == "hetero"
    return theirs, ours


def made(config, **given):
    """The mask for 2 rows of 8 tokens."""
    from transformers.masking_utils import create_causal_mask

    given = {"attention_mask": None, "position_ids": None, **given}
    return create_causal_mask(config, torch.zeros(2, 8, 4), given.pop("attention_mask"), None, **given)


def test_the_mask_is_the_least_that_says_it():
    attention.register()
    config = _build("llama").config
    config._attn_implementation = attention.NAME
    right = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    assert made(config) is None
    assert made(config, position_ids=torch.arange(8)[None]) is None
    assert made(config, attention_mask=right) is None
    assert made(config, position_ids=PACKED).tolist() == [0, 3, 7, 8, 16]
    assert made(config, attention_mask=right.flip(-1)).shape == (2, 1, 8, 8)
    # What it does not know it does not guess.
    strange = made(config, position_ids=PACKED, and_mask_function=lambda b, h, q, k: k != 1)
    assert strange.shape == (2, 1, 8, 8) and not strange[..., 1].any()
    blocks = made(config, position_ids=PACKED, block_sequence_ids=torch.zeros(2, 8, dtype=torch.long))
    assert blocks.shape == (2, 1, 8, 8) and bool(blocks[0, 0, 0, 2])


@pytest.mark.parametrize("case", ["plain", "packed", "right", "left", "pairs", "cache"])
def test_models_compute_the_same(models, case):
    ids = _tokens(2, 8)
    right = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    keep = {"right": right, "left": right.flip(-1)}.get(case)
    given = {
        "plain": {},
        "packed": {"position_ids": PACKED},
        "pairs": {"attention_mask": torch.rand(2, 1, 8, 8).lt(0.5) | torch.eye(8, dtype=torch.bool)},
    }.get(case, {} if keep is None else {"attention_mask": keep})
    found = []
    for model in models:
        model.zero_grad()
        if case == "cache":
            cache = model(ids[:, :5], use_cache=True).past_key_values
            out = model(ids[:, 5:], past_key_values=cache, use_cache=True).logits
        else:
            out = model(ids, use_cache=False, **given).logits
        out = out if keep is None else out * keep[..., None]
        out.square().mean().backward()
        found.append([out.detach(), *(p.grad for p in model.parameters())])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=2e-6)


def test_dropout_and_sinks_are_refused(models):
    module = next(m for m in models[1].modules() if type(m).__name__.endswith("Attention"))
    q, k, v = (torch.randn(1, 2, 3, 8) for _ in range(3))
    with pytest.raises(ModelError, match="dropout of 0.1"):
        attention.attend(module, q, k, v, None, dropout=0.1)
    with pytest.raises(ModelError, match="sinks"):
        attention.attend(module, q, k, v, None, s_aux=torch.zeros(2))


def test_patch_leaves_alone_what_it_must():
    eager = _build("llama")
    eager.set_attn_implementation("eager")
    assert "attention" not in patch(eager).swapped and eager.config._attn_implementation == "eager"
    dropping = _build("llama", attention_dropout=0.1)
    assert "drops out" in str(patch(dropping)) and dropping.config._attn_implementation == "sdpa"
    odd = _build("llama")
    for layer in odd.model.layers:
        layer.self_attn.scaling *= 1.01  # read by both: no difference
    assert patch(odd).swapped["attention"] == 2
    unproven = _build("llama")
    unpatch(unproven)  # nothing to undo
    with ops.use("attention_varlen=reference"):
        assert "no kernel for hetero.ops.attention_varlen" in str(patch(unproven))


def test_a_module_that_looks_into_its_mask_keeps_its_attention():
    model = _build("llama")
    kind = type(model.model.layers[0].self_attn)

    class Slicing(kind):
        def forward(self, *args, attention_mask=None, **kwargs):
            mask = None if attention_mask is None else attention_mask[:, :, :, :]
            return super().forward(*args, attention_mask=mask, **kwargs)

    Slicing.forward.__code__ = Slicing.forward.__code__.replace(
        co_names=(*Slicing.forward.__code__.co_names, "ALL_ATTENTION_FUNCTIONS")
    )
    for layer in model.model.layers:
        layer.self_attn.__class__ = Slicing
    report = patch(model)
    assert "Slicing x2: trying it raised IndexError" in str(report), str(report)
    assert model.config._attn_implementation == "sdpa"


def test_unpatch_restores():
    model = _build("qwen2")
    patch(model)
    unpatch(model)
    assert model.config._attn_implementation == "sdpa"
    assert patch(model).swapped["attention"] == 2
