"""From prompts to scored completions: what a policy gradient is computed from.

A rollout is plain data, as a checkpoint can hold it: {"prompt_ids", "ids", "log_probs": of each token of "ids",
"truncated": whether it was cut off, "rewards": one for each function or None, "failed": whether
each was lost to a failure, "text", "advantage"}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hetero.rollout import Completion, Engine, Request, Sampling
from hetero.train.algorithms.base import Example
from hetero.train.rewards import Rewards


class Sampler:
    """Draws ``count`` completions of each prompt from the model under training, and has them scored.

    Args:
        recipe: gives the sampling settings and the seed.
        tokenizer: turns completions to text for the reward functions.
        rewards: the reward functions.
    """

    def __init__(self, recipe: Any, tokenizer: Any, rewards: Rewards) -> None:
        self._recipe, self._tokenizer, self._rewards = recipe, tokenizer, rewards
        self._engine: Engine | None = None

    def __call__(self, model: nn.Module, prompts: Sequence[Example], seed: int) -> list[Example]:
        """Rollouts in order, the completions of a prompt next to each other.

        ``seed`` and a prompt's place decide its random stream, so a run that is resumed draws the same.
        """
        recipe = self._recipe
        if self._engine is None:
            self._engine = Engine(model, self._tokenizer, max_batch=recipe.rollout_batch_size)
        requests = [
            Request(prompt["prompt_ids"], self._sampling(seed + place), recipe.num_generations)
            for place, prompt in enumerate(prompts)
        ]
        found = self._engine.generate(requests)
        pairs = [(prompt, one) for prompt, several in zip(prompts, found) for one in several]
        texts = [self._tokenizer.decode(one.ids, skip_special_tokens=True) for _, one in pairs]
        scores = self._score(pairs, texts)
        return [
            {
                "prompt_ids": list(prompt["prompt_ids"]),
                "ids": one.ids,
                "log_probs": one.log_probs,
                "truncated": one.finish_reason == "length",
                "rewards": row,
                "failed": lost,
                "text": text,
                "advantage": 0.0,
            }
            for (prompt, one), row, lost, text in zip(pairs, scores, self._rewards.failed, texts)
        ]

    def _sampling(self, seed: int) -> Sampling:
        r = self._recipe
        return Sampling(
            max_new_tokens=r.max_completion_length,
            temperature=r.temperature,
            top_k=r.top_k,
            top_p=r.top_p,
            min_p=r.min_p,
            repetition_penalty=r.repetition_penalty,
            seed=seed,
        )

    def _score(
        self, pairs: Sequence[tuple[Example, Completion]], texts: Sequence[str]
    ) -> list[list[float | None]]:
        if not pairs:
            return []
        names = sorted({name for prompt, _ in pairs for name in prompt["columns"]})
        columns: dict[str, Any] = {
            name: [prompt["columns"].get(name) for prompt, _ in pairs] for name in names
        }
        columns["max_completion_length"] = self._recipe.max_completion_length
        completions = [
            text if isinstance(prompt["prompt"], str) else [{"role": "assistant", "content": text}]
            for (prompt, _), text in zip(pairs, texts)
        ]
        return self._rewards([p["prompt"] for p, _ in pairs], completions, [c.ids for _, c in pairs], columns)


def reward_matrix(rewards: Sequence[Sequence[float | None]], functions: int) -> Tensor:
    """Rewards [completions, functions] float32, NaN for None."""
    rows = [[float("nan") if value is None else value for value in row] for row in rewards]
    return torch.tensor(rows).view(len(rows), functions)


def left_aligned(rows: Sequence[Sequence[float]], width: int) -> Tensor:
    """A float32 matrix [rows, width] of rows of different length, filled up with 0."""
    out = torch.zeros(len(rows), width)
    for at, row in enumerate(rows):
        out[at, : len(row)] = torch.tensor(row)
    return out
