from __future__ import annotations

from typing import Any

import pytest
import torch

import hetero
from hetero.quickstart.evaluate import _continue, generate
from hetero.train.model.tiny import tiny_model, tiny_tokenizer

PROMPTS = [[{"role": "user", "content": f"What is {'1 + ' * n}1?"}] for n in (9, 1, 4, 2, 7)]


@pytest.fixture(scope="module")
def tiny() -> tuple[Any, Any]:
    """With a random head: one that is tied to the embeddings repeats the last token for ever."""
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer, "llama")
    random = torch.Generator().manual_seed(1)
    model.lm_head.weight = torch.nn.Parameter(torch.randn(model.lm_head.weight.shape, generator=random))
    return model, tokenizer


def _greedy_alone(model: Any, tokenizer: Any, prompt: list[dict[str, str]], count: int) -> str:
    """One prompt, no padding, no cache, one token at a time."""
    ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)["input_ids"]
    start = len(ids)
    with torch.no_grad():
        while len(ids) < start + count:
            token = int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax())
            if token == tokenizer.eos_token_id:
                break
            ids = [*ids, token]
    return tokenizer.decode(ids[start:], skip_special_tokens=True).strip()


def test_batches_answer_as_one_prompt_at_a_time_would(tiny: tuple[Any, Any]) -> None:
    model, tokenizer = tiny
    found = generate(model, tokenizer, hetero.device("cpu"), PROMPTS, max_new_tokens=12, batch_size=3)
    assert found.texts == [_greedy_alone(model.eval(), tokenizer, prompt, 12) for prompt in PROMPTS]
    assert len(set(found.texts)) > 1
    assert 0 < found.tokens <= 12 * len(PROMPTS)
    assert found.seconds > 0


def test_an_answer_ends_at_its_end_token(tiny: tuple[Any, Any]) -> None:
    model, tokenizer = tiny[0], tiny_tokenizer()
    device = hetero.device("cpu")
    conversation = {"add_generation_prompt": True, "return_dict": True}
    ids = [tokenizer.apply_chat_template(prompt, **conversation)["input_ids"] for prompt in PROMPTS]
    which, free = next(
        (i, row) for i, row in enumerate(_continue(model, tokenizer, device, ids, 40)) if len(set(row)) > 1
    )
    end = next(token for token in free if token != free[0])
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    ended = generate(model, tokenizer, device, PROMPTS[which : which + 1], max_new_tokens=40)
    assert 0 < ended.tokens == free.index(end) < 40
    assert ended.texts == [tokenizer.decode(free[: ended.tokens]).strip()]


def test_the_mode_is_left_as_it_was(tiny: tuple[Any, Any]) -> None:
    model, tokenizer = tiny
    for training in (True, False):
        model.train(training)
        generate(model, tokenizer, hetero.device("cpu"), PROMPTS[:1], max_new_tokens=1)
        assert model.training is training
