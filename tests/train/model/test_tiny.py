"""The builtin models are the ones that the recorded numbers of other trainers were made with."""

from __future__ import annotations

import hashlib

import pytest
import torch

from hetero.errors import ModelError
from hetero.train.data.builtin import arithmetic
from hetero.train.model.tiny import tiny_model, tiny_tokenizer

CHAT = [{"role": "user", "content": "What is 1 + 2?"}, {"role": "assistant", "content": "1 + 2 = 3"}]


def test_token_ids_are_the_recorded_ones():
    tokenizer = tiny_tokenizer()
    ids = [tokenizer.encode(question + answer) for question, answer, _ in arithmetic(50, seed=7)]
    assert len(tokenizer) == 512
    assert (
        hashlib.sha256(str(ids).encode()).hexdigest()
        == "d834e81dc33ae855f9b7e7d08cb59dc1ae858ae95d7da9dd98ce5098aeda6476"
    )
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 2)


def test_chat_template_marks_what_the_assistant_says_with_its_stop_token():
    encoded = tiny_tokenizer().apply_chat_template(
        CHAT, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    assert encoded["input_ids"] == [
        1, 268, 201, 272, 270, 279, 277, 280, 33, 2, 201, 1, 262, 273, 86, 201, 19, 277, 280, 269, 281, 2, 201
    ]  # fmt: skip
    assert encoded["assistant_masks"] == [0] * 16 + [1] * 6 + [0]
    prompt = tiny_tokenizer().apply_chat_template(CHAT[:1], tokenize=False, add_generation_prompt=True)
    assert prompt == "<|im_start|>user\nWhat is 1 + 2?<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("kind", "seed", "total", "digest"),
    [
        ("qwen2", 0, 7953.307289656125, "82116561612337dd"),
        ("qwen2", 1, 7961.949824985054, "7ccf56866cf02491"),
        ("llama", 0, 7953.036400337451, "ff1a162d731e5d2a"),
        ("llama", 1, 7962.6476791912855, "0f8c8e80adba0705"),
    ],
)
def test_weights_are_the_recorded_ones(kind, seed, total, digest):
    state = torch.random.get_rng_state()
    model = tiny_model(tiny_tokenizer(), kind, seed=seed)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert sum(float(p.detach().double().abs().sum()) for p in model.parameters()) == pytest.approx(
        total, rel=1e-12
    )
    hashed = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        hashed.update(name.encode())
        hashed.update(tensor.numpy().tobytes())
    assert hashed.hexdigest()[:16] == digest


def test_tokenizers_do_not_share_state():
    first = tiny_tokenizer()
    first.add_tokens(["<extra>"])
    assert (len(first), len(tiny_tokenizer())) == (513, 512)


def test_unknown_kind():
    with pytest.raises(ModelError, match=r"hetero:tiny-mamba.*hetero:tiny-qwen2"):
        tiny_model(tiny_tokenizer(), "mamba")
