"""KTO: answers that are known to be good or bad, compared with the model's usual ones.

The usual answer is estimated by ``z = max(0, mean(log p(y'|x) - ref(y'|x)))`` over prompts with the answers of other
prompts. It is the same number for the whole window on every rank, and the loss is the mean over the window's
answers, so neither depends on how the window is split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from hetero.errors import DataError
from hetero.train.algorithms.base import Batch, Example, Items, Sums
from hetero.train.algorithms.referenced import Referenced
from hetero.train.algorithms.scoring import scorable, score
from hetero.train.data.preference_sets import build_judged
from hetero.train.data.report import EncodeReport
from hetero.train.preference.reference import evaluating
from hetero.train.preference.unpaired import LOSSES, WITH_KL

if TYPE_CHECKING:
    from hetero.train.distributed import Engine


class KTO(Referenced):
    """``loss_type`` "kto" or "apo_zero_unpaired", weighted by ``desirable_weight`` and ``undesirable_weight``."""

    name: ClassVar[str] = "kto"
    columns: ClassVar[tuple[str, ...]] = ("ref_logps", "ref_KL_logps")

    def __init__(self, recipe: Any, tokenizer: Any) -> None:
        super().__init__(recipe, tokenizer)
        (self._kind,) = recipe.loss_type

    def prepare(self, split: str) -> tuple[Sequence[Example], EncodeReport]:
        data, report = build_judged(self._recipe, self._tokenizer, split)
        if self._kind in WITH_KL and len(data) < 2:
            raise DataError(
                f"{report.name}: KTO needs at least 2 rows, since each is compared with another's answer"
            )
        if split == "train" and (advice := self._balance(data.columns["label"])):
            report.warnings.append(advice)
        return data, report

    def _balance(self, labels: Any) -> str | None:
        """What eq. 8 of the KTO paper says about the weights: desirable : undesirable between 1 and 4/3."""
        good = max(int(labels.sum()), 1)
        bad = max(len(labels) - good, 1)
        ratio = good * self._recipe.desirable_weight / (bad * self._recipe.undesirable_weight)
        if good == bad or 0.99 <= ratio <= 1.34:
            return None
        low = bad * self._recipe.undesirable_weight / good
        return (
            f"{good} answers are desirable and {bad} are not; a desirable_weight between {low:.2f} and "
            f"{4 / 3 * low:.2f} would balance them"
        )

    def collate(self, examples: Sequence[Example]) -> Batch:
        batch = scorable(examples, self._tokenizer.pad_token_id)
        batch["label"] = torch.tensor([bool(e["label"]) for e in examples], dtype=torch.bool)
        given = self.given(examples)
        return batch if given is None else batch | {"reference": given[0]}

    def reference_batch(self, examples: Sequence[Example]) -> Batch:
        return scorable([*examples, *(e["mismatched"] for e in examples)], self._tokenizer.pad_token_id)

    def reference_numbers(self, log_p: Tensor, batch: Batch) -> Tensor:
        """[2, answers] of a :meth:`reference_batch`."""
        return log_p.sum(1).view(2, -1)

    def build(self, engine: Engine, window: Sequence[Sequence[Example]]) -> list[Batch]:
        """Adds ``kl``, the window's ``z``, to each batch."""
        batches = super().build(engine, window)
        total = torch.zeros(2, device=engine.device.torch)
        if self._kind in WITH_KL:
            for examples in filter(None, window):
                total += torch.stack(self._divergence(engine, examples))
            engine.sum_floats(total)
        kl = (total[0] / total[1].clamp(min=1)).clamp(min=0)
        return [batch | {"kl": kl} for batch in batches]

    def _divergence(self, engine: Engine, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Sum of ``log p - ref`` over the mismatched answers, and their number."""
        sequences = [e["mismatched"] for e in examples]
        batch = engine.to_device(scorable(sequences, self._tokenizer.pad_token_id))
        with evaluating(engine.model), torch.no_grad():
            policy = score(engine.model, batch).sums()
        given = self.given(examples)
        reference = self.live(batch).sum(1) if given is None else given[1].to(policy.device)
        return (policy - reference).sum(), torch.full_like(policy.sum(), len(examples))

    def items(self, batch: Batch) -> Items:
        return {"answers": batch["label"].numel()}

    def tokens(self, batch: Batch) -> int:
        return batch["num_tokens"]

    def loss(self, model: nn.Module, batch: Batch, items: Items) -> tuple[Tensor, Sums]:
        good, recipe = batch["label"], self._recipe
        reference = batch.get("reference")
        if reference is None:
            reference = self.live(batch).sum(1)[: good.numel()]
        scores = score(model, batch)
        policy = scores.sums()[: good.numel()]
        losses = LOSSES[self._kind](policy - reference, good, batch["kl"], recipe.beta)
        weights = torch.where(good, recipe.desirable_weight, recipe.undesirable_weight)
        total = (weights * losses).sum() / items["answers"] + scores.tie
        with torch.no_grad():
            sums: Sums = {"kl": torch.stack([batch["kl"], torch.ones_like(batch["kl"])])}
            for side, which in (("chosen", good), ("rejected", ~good)):
                count = which.sum().to(policy.dtype)
                rewards = recipe.beta * (policy - reference)
                sums[f"rewards/{side}"] = torch.stack([rewards.where(which, 0.0).sum(), count])
                sums[f"logps/{side}"] = torch.stack([policy.where(which, 0.0).sum(), count])
            entropy = scores.entropy.sum()
            sums["entropy"] = torch.stack([entropy, scores.mask.sum().to(entropy.dtype)])
        return total, sums

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        if not {"rewards/chosen", "rewards/rejected"} <= means.keys():
            return {}
        return {"rewards/margins": means["rewards/chosen"] - means["rewards/rejected"]}
