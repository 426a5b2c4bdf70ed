"""Reward models: a score for an answer, learnt from pairs of a better and a worse one.

``mean(-logsig(r_w - r_l - margin) + c (r_w + r_l)^2)`` over the pairs of the window (Bradley-Terry; the margin of
Llama 2, arXiv 2307.09288; centring, arXiv 2312.09244).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from hetero.errors import ModelError
from hetero.train.algorithms.base import Algorithm, Batch, Example, Items, Sums
from hetero.train.data.collate import collate
from hetero.train.data.preference_sets import build_pairs
from hetero.train.data.report import EncodeReport
from hetero.train.preference.reference import without_dropout


class RM(Algorithm):
    """A Transformers sequence classifier with one output, read where Transformers itself will read it."""

    name: ClassVar[str] = "rm"

    def __init__(self, recipe: Any, tokenizer: Any) -> None:
        self._recipe, self._tokenizer = recipe, tokenizer

    def check(self, model: nn.Module) -> None:
        config: Any = model.config
        if config.num_labels != 1:
            raise ModelError(f"a reward model has one output, this model has {config.num_labels}")
        if self._recipe.disable_dropout:
            without_dropout(model)

    def prepare(self, split: str) -> tuple[Sequence[Example], EncodeReport]:
        return build_pairs(self._recipe, self._tokenizer, split, whole=True)

    def collate(self, examples: Sequence[Example]) -> Batch:
        sequences = [e[side] for side in ("chosen", "rejected") for e in examples]
        batch: Batch = dict(collate(sequences, pad_token_id=self._tokenizer.pad_token_id))
        del batch["labels"]
        batch["margin"] = torch.tensor([e.get("margin", 0.0) for e in examples], dtype=torch.float32)
        return batch | {"num_tokens": sum(len(s["input_ids"]) for s in sequences)}

    def items(self, batch: Batch) -> Items:
        return {"pairs": batch["margin"].numel()}

    def tokens(self, batch: Batch) -> int:
        return batch["num_tokens"]

    def loss(self, model: nn.Module, batch: Batch, items: Items) -> tuple[Tensor, Sums]:
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
        scores = model(**inputs, use_cache=False).logits.squeeze(-1).float()
        pairs = batch["margin"].numel()
        rewards = scores[: 2 * pairs]
        chosen, rejected = rewards.view(2, pairs)
        losses = -logsigmoid(chosen - rejected - batch["margin"])
        if self._recipe.center_rewards_coefficient is not None:
            losses = losses + self._recipe.center_rewards_coefficient * (chosen + rejected).square()
        # The sum of all scores ties in every parameter where there is no pair.
        total = losses.sum() / items["pairs"] + 0.0 * scores.sum()
        with torch.no_grad():
            return total, self._sums(rewards, chosen, rejected)

    def _sums(self, rewards: Tensor, chosen: Tensor, rejected: Tensor) -> Sums:
        """The extremes are those of a micro-batch, averaged over micro-batches."""
        pairs = torch.full_like(chosen.sum(), len(chosen))
        batches = pairs.clamp(max=1)
        low, high = rewards.aminmax() if len(rewards) else (pairs, pairs)
        return {
            "accuracy": torch.stack([(chosen > rejected).float().sum(), pairs]),
            "margin": torch.stack([(chosen - rejected).sum(), pairs]),
            "mean_reward": torch.stack([rewards.sum(), 2 * pairs]),
            "min_reward": torch.stack([low, batches]),
            "max_reward": torch.stack([high, batches]),
        }
