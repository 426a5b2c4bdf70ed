"""Supervised fine-tuning: cross-entropy on the labelled tokens, or DFT's reweighting of it.

With ``p_t`` the model's probability of token ``t`` and ``N`` the labelled tokens of the window over all
ranks:

* nll: ``sum_t -log p_t / N``
* dft: ``sum_t -sg(p_t) log p_t / N`` (Wu et al. 2025), ``sg`` meaning that no gradient flows through it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from hetero import ops
from hetero.train.algorithms.base import Algorithm, Batch, Example, Items, Sums
from hetero.train.algorithms.scoring import scorable
from hetero.train.data.dataset import build
from hetero.train.data.report import EncodeReport
from hetero.train.model.head import LMHead, check_head


class SFT(Algorithm):
    """``loss_type`` "nll" or "dft" over the language-model head, whose logits are never held."""

    name: ClassVar[str] = "sft"

    def __init__(self, recipe: Any, tokenizer: Any) -> None:
        self._recipe, self._tokenizer = recipe, tokenizer

    def prepare(self, split: str) -> tuple[Sequence[Example], EncodeReport]:
        return build(self._recipe, self._tokenizer, split)

    def check(self, model: nn.Module) -> None:
        check_head(model)

    def collate(self, examples: Sequence[Example]) -> Batch:
        return scorable(examples, self._tokenizer.pad_token_id)

    def items(self, batch: Batch) -> Items:
        return {"tokens": batch["target"].numel()}

    def tokens(self, batch: Batch) -> int:
        return batch["num_tokens"]

    def loss(self, model: nn.Module, batch: Batch, items: Items) -> tuple[Tensor, Sums]:
        head = LMHead.of(model)
        hidden = head.hidden(batch).flatten(0, 1)
        target = batch["target"]
        if target.numel() == 0:
            # Zero, but with a (zero) gradient for every parameter: other ranks wait for this one's.
            return (hidden.sum() + head.weight.sum()).float() * 0.0, {}
        hidden, bias = hidden.index_select(0, batch["source"]), head.scaled_bias()
        if self._recipe.loss_type == ["dft"]:
            log_p, _ = ops.linear_log_prob(hidden, head.weight, target, bias, softcap=head.softcap)
            total = -(log_p.detach().exp() * log_p).sum()
        else:
            total = ops.fused_linear_cross_entropy(
                hidden, head.weight, target, bias, softcap=head.softcap, reduction="sum"
            )
        return total.float() / items["tokens"], {}
