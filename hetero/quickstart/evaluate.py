"""Answers of a model to many prompts: batched greedy generation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from hetero.accelerator import Device

Prompt = Sequence[dict[str, str]]


@dataclass(frozen=True)
class Answers:
    """One text per prompt, in order; ``tokens`` counts generated ones, over ``seconds`` of generation."""

    texts: list[str]
    tokens: int
    seconds: float


def generate(
    model: Any,
    tokenizer: Any,
    device: Device,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    batch_size: int = 50,
) -> Answers:
    """The most likely continuation of each conversation, at most ``max_new_tokens`` tokens.

    Prompts of like length share a batch, padded on the left, with a key-value cache. The model is left in
    the mode (training or evaluation) it came in. Special tokens are not part of the texts.
    """
    rendered = [
        tokenizer.apply_chat_template(list(prompt), add_generation_prompt=True, return_dict=True)["input_ids"]
        for prompt in prompts
    ]
    order = sorted(range(len(rendered)), key=lambda i: len(rendered[i]))
    texts = [""] * len(rendered)
    training, tokens, started = model.training, 0, time.perf_counter()
    model.eval()
    try:
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = [rendered[row] for row in rows]
            for row, ids in zip(rows, _continue(model, tokenizer, device, batch, max_new_tokens)):
                tokens += len(ids)
                texts[row] = tokenizer.decode(ids, skip_special_tokens=True).strip()
    finally:
        model.train(training)
    return Answers(texts, tokens, time.perf_counter() - started)


@torch.no_grad()
def _continue(
    model: Any, tokenizer: Any, device: Device, prompts: list[list[int]], max_new_tokens: int
) -> list[list[int]]:
    """Greedy continuations of token ids, each up to its end token and without it."""
    width = max(map(len, prompts))
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=device.torch)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device.torch)
    out = model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=max_new_tokens,
        do_sample=False,
        use_cache=True,
        eos_token_id=end,
        pad_token_id=pad,
    )
    return [row[: row.index(end)] if end in row else row for row in out[:, width:].tolist()]
