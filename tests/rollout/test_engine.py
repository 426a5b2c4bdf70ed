"""The engine against Transformers' own generation and against the model's own log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import hetero
from hetero.errors import RolloutError
from hetero.rollout import Completion, Engine, Request, Sampling
from hetero.train.model.tiny import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


@pytest.fixture(scope="module", params=["qwen2", "llama", "patched", "gemma2", "mistral"])
def model(request: pytest.FixtureRequest, tokenizer: Any) -> torch.nn.Module:
    """Families that differ in what attention is told: grouped heads, soft caps, sliding windows of 8 tokens."""
    from transformers import Gemma2Config, Gemma2ForCausalLM, MistralConfig, MistralForCausalLM

    if request.param in ("qwen2", "llama"):
        return tiny_model(tokenizer, request.param, seed=1).eval()
    if request.param == "patched":
        patched = tiny_model(tokenizer, seed=1).eval()
        hetero.patch(patched)
        return patched
    sizes: dict[str, Any] = {
        "vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8,
    }  # fmt: skip
    torch.manual_seed(0)
    if request.param == "gemma2":
        return Gemma2ForCausalLM(Gemma2Config(**sizes, attn_implementation="eager")).eval()
    return MistralForCausalLM(MistralConfig(**sizes)).eval()


@pytest.fixture
def prompts(tokenizer: Any) -> list[list[int]]:
    texts = [
        "What is 4 + 5?",
        "3",
        "What is 17 * 23? Say it in words, please.",
        "16 tokens or more are here, are there not?",
    ]
    return [tokenizer(text)["input_ids"] for text in texts]


def log_probs(model: Any, prompt: list[int], ids: list[int], temperature: float) -> torch.Tensor:
    with torch.no_grad():
        logits = model(torch.tensor([prompt + ids])).logits.float()[0, len(prompt) - 1 : -1]
    chosen = torch.tensor(ids)[:, None]
    return torch.log_softmax(logits / temperature, -1).gather(-1, chosen)[:, 0]


def test_greedy_is_transformers_greedy(model: Any, prompts: list[list[int]]) -> None:
    engine = Engine(model, eos_token_ids=(), max_batch=3)
    found = engine.generate([Request(p, Sampling(max_new_tokens=24, temperature=0.0)) for p in prompts])
    for prompt, (completion,) in zip(prompts, found):
        # A near tie may fall either way: the chosen token has to be the likeliest up to rounding.
        with torch.no_grad():
            logits = model(torch.tensor([prompt + completion.ids])).logits[0, len(prompt) - 1 : -1]
        chosen = logits.gather(-1, torch.tensor(completion.ids)[:, None])[:, 0]
        assert torch.all(chosen >= logits.amax(-1) - 1e-4)
        assert completion.finish_reason == "length"


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_the_models(model: Any, prompts: list[list[int]], temperature: float) -> None:
    sampling = Sampling(max_new_tokens=20, temperature=temperature, seed=5)
    found = Engine(model, max_batch=5, page_size=4).generate([Request(p, sampling, count=3) for p in prompts])
    for prompt, completions in zip(prompts, found):
        for completion in completions:
            expected = log_probs(model, prompt, completion.ids, temperature)
            torch.testing.assert_close(torch.tensor(completion.log_probs), expected, rtol=1e-4, atol=1e-5)


def test_does_not_depend_on_company(model: Any, prompts: list[list[int]]) -> None:
    request = Request(prompts[0], Sampling(max_new_tokens=16, seed=11), count=4)
    alone = Engine(model, max_batch=1, page_size=5).generate([request])[0]
    others = [Request(p, Sampling(max_new_tokens=7 + i)) for i, p in enumerate(prompts)]
    together = Engine(model, max_batch=6, max_prefill_tokens=10).generate(
        [*others[:2], request, *others[2:]]
    )[2]
    assert [c.ids for c in alone] == [c.ids for c in together]
    assert len({tuple(c.ids) for c in alone}) > 1  # each has a random stream of its own


def test_pages_are_given_back_and_limits_only_delay(model: Any, prompts: list[list[int]]) -> None:
    requests = [Request(p, Sampling(max_new_tokens=12, seed=i), count=3) for i, p in enumerate(prompts)]
    free = Engine(model, max_batch=12)
    tight = Engine(model, max_batch=12, page_size=4, max_pages=24)
    assert [[c.ids for c in cs] for cs in free.generate(requests)] == [
        [c.ids for c in cs] for cs in tight.generate(requests)
    ]
    for engine in (free, tight):
        assert engine._pool.in_use == 0 and engine._reserved == 0


def test_ends_at_eos_and_at_stop_strings(tokenizer: Any, prompts: list[list[int]]) -> None:
    model = tiny_model(tokenizer, seed=1)
    request = Request(prompts[0], Sampling(max_new_tokens=40, seed=1))
    whole = Engine(model, tokenizer, eos_token_ids=()).generate([request])[0][0]
    text = tokenizer.decode(whole.ids)
    eos = whole.ids[9]
    cut = Engine(model, tokenizer, eos_token_ids=[eos]).generate([request])[0][0]
    assert cut.ids == whole.ids[: whole.ids.index(eos) + 1] and cut.finish_reason == "stop"
    stop = text[20:23]
    stopped = Engine(model, tokenizer, eos_token_ids=()).generate(
        [Request(prompts[0], Sampling(max_new_tokens=40, seed=1, stop=(stop,)))]
    )[0][0]
    assert stop in tokenizer.decode(stopped.ids) and stop not in tokenizer.decode(stopped.ids[:-1])
    assert stopped.ids == whole.ids[: len(stopped.ids)]


def test_leaves_the_model_as_it_was(tokenizer: Any, prompts: list[list[int]]) -> None:
    model = tiny_model(tokenizer, seed=1).train()
    model.model.layers[0].eval()
    before = [m.training for m in model.modules()]
    implementation = model.config._attn_implementation
    Engine(model).generate([Request(prompts[0], Sampling(max_new_tokens=2))])
    assert [m.training for m in model.modules()] == before
    assert model.config._attn_implementation == implementation
    assert not any(p.grad is not None for p in model.parameters())


def test_weights_are_read_in_place(tokenizer: Any, prompts: list[list[int]]) -> None:
    model = tiny_model(tokenizer, seed=1)
    engine = Engine(model, eos_token_ids=())
    request = Request(prompts[0], Sampling(max_new_tokens=12, seed=2))
    before = engine.generate([request])[0][0]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.02 * torch.randn_like(p))
    engine.version = 7
    after = engine.generate([request])[0][0]
    assert before.version == 0 and after.version == 7
    expected = log_probs(model.eval(), prompts[0], after.ids, 1.0)
    torch.testing.assert_close(torch.tensor(after.log_probs), expected, rtol=1e-4, atol=1e-5)


def test_lora_is_part_of_the_model(tokenizer: Any, prompts: list[list[int]]) -> None:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(
        tiny_model(tokenizer, seed=1), LoraConfig(r=4, target_modules=["q_proj", "down_proj"])
    )
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name:
                p.normal_(std=0.1)
    found = Engine(model).generate([Request(prompts[0], Sampling(max_new_tokens=12, seed=2))])[0][0]
    expected = log_probs(model.eval(), prompts[0], found.ids, 1.0)
    torch.testing.assert_close(torch.tensor(found.log_probs), expected, rtol=1e-4, atol=1e-5)


def test_no_requests(tokenizer: Any) -> None:
    assert Engine(tiny_model(tokenizer)).generate([]) == []


def errors() -> Iterator[tuple[str, Any]]:
    yield "max_batch is 0", lambda m: Engine(m, max_batch=0)
    yield "a prompt is empty", lambda m: Request([])
    yield "count is 0", lambda m: Request([1], count=0)
    yield "need a tokenizer", lambda m: Engine(m).generate([Request([1], Sampling(stop=("x",)))])
    yield (
        "may need 4 pages of 4 tokens, the cache has 3",
        lambda m: Engine(m, page_size=4, max_pages=3).generate([Request([1, 2], Sampling(max_new_tokens=9))]),
    )


@pytest.mark.parametrize("message, call", errors(), ids=lambda v: v if isinstance(v, str) else "")
def test_errors(message: str, call: Any, tokenizer: Any) -> None:
    with pytest.raises(RolloutError, match=message):
        call(tiny_model(tokenizer))


def test_ruined_weights_are_an_error(tokenizer: Any) -> None:
    model = tiny_model(tokenizer)
    with torch.no_grad():
        model.model.norm.weight.fill_(torch.nan)
    engine = Engine(model)
    with pytest.raises(RolloutError, match="not finite"):
        engine.generate([Request([1, 2, 3])])
    assert engine._pool.in_use == 0


def test_completion_is_plain_data() -> None:
    assert Completion([1], [0.0], "stop").version == 0
