"""Direct preference optimisation and its family: one loss, or a weighted mixture, over pairs of answers.

With ``l_k(i)`` loss k of pair i (:mod:`hetero.train.preference.pairs`), P the pairs and T the chosen tokens of the
window over all ranks:

``sum_k w_k sum_i l_k(i) / P + w_sft sum_t -log p_t / T``

so the result does not depend on how the window is split; only aot and aot_unpaired sort the pairs of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hetero.train.algorithms.base import Batch, Example, Items, Sums
from hetero.train.algorithms.referenced import Referenced
from hetero.train.algorithms.scoring import scorable, score
from hetero.train.data.collate import IGNORE
from hetero.train.data.preference_sets import build_pairs
from hetero.train.data.report import EncodeReport
from hetero.train.preference.pairs import LOSSES, SFT, Pairs, Settings
from hetero.train.recipe.algorithms import has_reference

#: Losses that look at the mean log-probability of a token and not at that of the whole answer.
_PER_TOKEN = frozenset({"simpo", "orpo"})


class DPO(Referenced):
    """``loss_type`` is a list of losses with ``loss_weights``. Chosen and rejected answers share a forward pass."""

    name: ClassVar[str] = "dpo"
    columns: ClassVar[tuple[str, ...]] = ("ref_chosen_logps", "ref_rejected_logps")

    def __init__(self, recipe: Any, tokenizer: Any) -> None:
        super().__init__(recipe, tokenizer)
        weights = recipe.loss_weights or [1.0] * len(recipe.loss_type)
        self._terms = list(zip(recipe.loss_type, weights, strict=True))
        self._settings = Settings(**{name: getattr(recipe, name) for name in Settings.__dataclass_fields__})

    @property
    def needs_reference(self) -> bool:
        return has_reference(self._recipe.loss_type)

    def prepare(self, split: str) -> tuple[Sequence[Example], EncodeReport]:
        return build_pairs(self._recipe, self._tokenizer, split)

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Rows are the chosen answers, then the rejected ones. ``answer_tokens`` [2 pairs] is their length."""
        batch = self.reference_batch(examples)
        answers = [e[side]["labels"] for side in ("chosen", "rejected") for e in examples]
        batch["answer_tokens"] = torch.tensor([float(sum(t != IGNORE for t in labels)) for labels in answers])
        given = self.given(examples)
        return batch if given is None else batch | {"reference": given}

    def reference_batch(self, examples: Sequence[Example]) -> Batch:
        sequences = [e[side] for side in ("chosen", "rejected") for e in examples]
        return scorable(sequences, self._tokenizer.pad_token_id) | {"pairs": len(examples)}

    def reference_numbers(self, log_p: Tensor, batch: Batch) -> Tensor:
        """Log-probabilities [2, pairs]; with ``ld_alpha`` tokens beyond the shorter answer count that much (LD-DPO,
        arXiv 2409.06411)."""
        n, alpha = batch["pairs"], self._recipe.ld_alpha
        width = log_p.shape[1]
        rows = log_p[: 2 * n].view(2, n, width)
        if alpha is not None:
            shared = batch["mask"][: 2 * n].view(2, n, width).all(0)
            rows = torch.where(shared, rows, alpha * rows)
        return rows.sum(-1)

    def items(self, batch: Batch) -> Items:
        return {"pairs": batch["pairs"], "tokens": int(batch["mask"][: batch["pairs"]].sum())}

    def tokens(self, batch: Batch) -> int:
        return batch["num_tokens"]

    def loss(self, model: nn.Module, batch: Batch, items: Items) -> tuple[Tensor, Sums]:
        # The reference first: nothing of the policy's pass is held meanwhile.
        reference = batch.get("reference")
        if reference is None and self.needs_reference:
            reference = self.reference_numbers(self.live(batch), batch)
        scores = score(model, batch)
        policy = self.reference_numbers(scores.log_p, batch)
        reference = torch.zeros_like(policy) if reference is None else reference
        pairs = Pairs(*policy, *reference, *batch["answer_tokens"].view(2, -1))
        total = scores.tie
        for name, weight in self._terms:
            if name == SFT:
                total = total - weight * scores.log_p[: batch["pairs"]].sum() / items["tokens"]
            else:
                total = total + weight * LOSSES[name](pairs, self._settings).sum() / items["pairs"]
        with torch.no_grad():
            return total, self._sums(pairs, scores.entropy, scores.mask)

    def _sums(self, pairs: Pairs, entropy: Tensor, mask: Tensor) -> Sums:
        ratios = pairs.ratios
        if any(name in _PER_TOKEN for name, _ in self._terms):
            ratios = pairs.per_token(*ratios)
        chosen, rejected = (self._recipe.beta * ratio for ratio in ratios)
        values = {
            "rewards/chosen": chosen,
            "rewards/rejected": rejected,
            "rewards/accuracies": (chosen > rejected).float(),
            "rewards/margins": chosen - rejected,
            "logps/chosen": pairs.chosen,
            "logps/rejected": pairs.rejected,
        }
        count = torch.full_like(entropy.sum(), len(chosen))
        sums = {name: torch.stack([value.sum(), count]) for name, value in values.items()}
        return sums | {"entropy": torch.stack([entropy.sum(), mask.sum().to(entropy.dtype)])}

    def after_step(self, model: nn.Module, step: int) -> None:
        recipe = self._recipe
        if recipe.sync_ref_model and step % recipe.ref_model_sync_steps == 0:
            assert self._reference is not None
            self._reference.follow(recipe.ref_model_mixup_alpha)

    def modules(self) -> dict[str, nn.Module]:
        """The reference, where it follows the policy."""
        if not self._recipe.sync_ref_model or self._reference is None or self._reference.model is None:
            return {}
        return {"reference": self._reference.model}
