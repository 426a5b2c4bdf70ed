"""Group relative policy optimisation and its family: completions of one prompt are compared with each other.

For every prompt G completions are drawn and scored; a completion's advantage says how much better it is than its
group (:mod:`hetero.train.policy.advantages`). The loss of a token (:mod:`hetero.train.policy.objectives`) plus
``beta`` times an estimate of the divergence from the reference is summed as ``loss_type`` says
(:mod:`hetero.train.policy.aggregation`) over the whole window and all ranks, less ``entropy_coef`` times the mean
entropy of the tokens.

A window's completions are drawn when it begins, and used for ``num_iterations`` steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from hetero.train.algorithms.base import Algorithm, Batch, Example, Items, Sums, WindowShape
from hetero.train.algorithms.rollouts import Sampler, left_aligned, reward_matrix
from hetero.train.algorithms.scoring import Scores, scorable, score
from hetero.train.data.collate import IGNORE
from hetero.train.data.prompts import build_prompts
from hetero.train.data.report import EncodeReport
from hetero.train.model.head import check_head
from hetero.train.policy import advantages, aggregation, divergence, objectives
from hetero.train.preference.reference import Reference, without_dropout
from hetero.train.rewards import Rewards, load

if TYPE_CHECKING:
    from hetero.train.distributed import Engine

#: loss_type -> objective of a token, and how tokens are summed.
LOSSES: dict[str, tuple[str, str]] = {
    "dapo": ("clip", "dapo"),
    "grpo": ("clip", "grpo"),
    "bnpo": ("clip", "bnpo"),
    "dr_grpo": ("clip", "dr_grpo"),
    "luspo": ("clip", "luspo"),
    "cispo": ("cispo", "dapo"),
    "sapo": ("sapo", "grpo"),
    "vespo": ("vespo", "dapo"),
}


class GRPO(Algorithm):
    """``loss_type`` is one of :data:`LOSSES`; ``importance_sampling_level: sequence`` makes it GSPO."""

    name: ClassVar[str] = "grpo"

    def __init__(self, recipe: Any, tokenizer: Any) -> None:
        self._recipe, self._tokenizer = recipe, tokenizer
        (loss,) = recipe.loss_type
        self._objective, self._sum = LOSSES[loss]
        self._rewards = Rewards(
            _named(recipe.reward_funcs), recipe.reward_weights, recipe.reward_errors, recipe.reward_timeout
        )
        self._sample = Sampler(recipe, tokenizer, self._rewards)
        self._reference: Reference | None = None
        self._drawn = 0  # windows whose completions have been drawn
        self._kept: list[list[Example]] = []  # the present window's, for the steps that are still to come
        self._used = 0

    def prepare(self, split: str) -> tuple[Sequence[Example], EncodeReport]:
        return build_prompts(self._recipe, self._tokenizer, split)

    def windows(self, recipe: Any) -> WindowShape:
        completions = recipe.per_device_train_batch_size * recipe.gradient_accumulation_steps
        return WindowShape(completions // recipe.num_generations, 1, recipe.num_iterations)

    def check(self, model: nn.Module) -> None:
        check_head(model)
        if self._recipe.disable_dropout:
            without_dropout(model)

    def begin(self, engine: Engine, splits: Mapping[str, Sequence[Example]]) -> None:
        self._rewards.to(engine.device.torch)
        if self._recipe.beta:
            self._reference = Reference(engine.model)
            self._reference.hold()

    # -- from prompts to batches
    def build(self, engine: Engine, window: Sequence[Sequence[Example]]) -> list[Batch]:
        if not engine.model.training:
            seed = self._recipe.seed
            return [self._batch(engine, self._sample(engine.model, prompts, seed)) for prompts in window]
        if not self._kept:
            self._kept = self._draw(engine, [prompt for prompts in window for prompt in prompts])
            self._used = 0
        batches = [self._batch(engine, rollouts) for rollouts in self._kept]
        self._used += 1
        if self._used == self._recipe.num_iterations:
            self._kept = []
        return batches

    def _draw(self, engine: Engine, prompts: Sequence[Example]) -> list[list[Example]]:
        rollouts = self._sample(engine.model, prompts, self._seed(engine))
        self._drawn += 1
        self._set_advantages(engine, rollouts)
        size = self._recipe.per_device_train_batch_size
        # As many batches on every rank, whatever an epoch's end leaves it.
        return [
            rollouts[at * size : (at + 1) * size] for at in range(self._recipe.gradient_accumulation_steps)
        ]

    def _seed(self, engine: Engine) -> int:
        # A prompt's place among those of all ranks: the same completions on one rank as on several.
        first = engine.comm.rank * self.windows(self._recipe).rows
        return (self._recipe.seed * 1_000_003 + self._drawn) * 65_536 % 2**40 + first

    def _set_advantages(self, engine: Engine, rollouts: list[Example]) -> None:
        recipe = self._recipe
        weights = torch.tensor(self._rewards.weights)
        rewards = reward_matrix([r["rewards"] for r in rollouts], len(weights))
        group = recipe.num_generations
        total = advantages.combine_rewards(rewards, weights)
        if recipe.advantage_estimator == "leave_one_out":
            found = advantages.leave_one_out(total, group)
        elif recipe.scale_rewards == "batch" or recipe.advantage_estimator == "gdpo":
            # The spread of the batch is that over all ranks.
            ranks = engine.comm.all_gather_object([r["rewards"] for r in rollouts])
            everything = reward_matrix([row for rows in ranks for row in rows], len(weights))
            start = sum(len(rows) for rows in ranks[: engine.comm.rank])
            whole = (
                advantages.group_of_rewards(everything, weights, group)
                if recipe.advantage_estimator == "gdpo"
                else advantages.group_relative(
                    advantages.combine_rewards(everything, weights), group, "batch"
                )
            )
            found = whole[start : start + len(rollouts)]
        else:
            found = advantages.group_relative(total, group, recipe.scale_rewards)
        for rollout, advantage in zip(rollouts, found.tolist()):
            rollout["advantage"] = advantage

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Build a batch of rollouts."""
        rollouts = examples
        kept = [not (self._recipe.mask_truncated_completions and r["truncated"]) for r in rollouts]
        sequences = [
            {
                "input_ids": r["prompt_ids"] + r["ids"],
                "labels": [IGNORE] * len(r["prompt_ids"]) + (r["ids"] if keep else [IGNORE] * len(r["ids"])),
            }
            for r, keep in zip(rollouts, kept)
        ]
        batch = scorable(sequences, self._tokenizer.pad_token_id)
        mask = batch["mask"]
        sampled = [r["log_probs"] if keep else [] for r, keep in zip(rollouts, kept)]
        return batch | {
            "sampled": _rows_like(mask, left_aligned(sampled, mask.shape[1])),
            "advantages": _rows_like(mask, torch.tensor([r["advantage"] for r in rollouts]).view(-1, 1)),
            "sequences": len(rollouts),
            "statistics": self._statistics(rollouts),
        }

    def _batch(self, engine: Engine, rollouts: Sequence[Example]) -> Batch:
        batch = self.collate(rollouts)
        if self._reference is not None:
            with self._reference.active() as model:
                scores = score(model, engine.to_device(batch), temperature=self._recipe.temperature)
            batch["reference"] = scores.log_p
        return batch

    def _statistics(self, rollouts: Sequence[Example]) -> dict[str, list[float]]:
        """Metric name to [sum, count] of what was drawn."""
        count, group = len(rollouts), self._recipe.num_generations
        weights = torch.tensor(self._rewards.weights)
        rewards = reward_matrix([r["rewards"] for r in rollouts], len(weights))
        found = {}
        for at, (name, column) in enumerate(zip(self._rewards.names, rewards.unbind(1))):
            known = column[~column.isnan()]
            found[f"rewards/{name}/mean"] = [float(known.sum()), float(len(known))]
            lost = sum(r["failed"][at] for r in rollouts if "failed" in r)
            found[f"rewards/{name}/failure_frequency"] = [float(lost), float(count)]
        total = advantages.combine_rewards(rewards, weights)
        known = total[~total.isnan()]
        found["reward"] = [float(known.sum()), float(len(known))]
        groups = total[: count // group * group].view(-1, group)
        spread = [[v for v in row if v == v] for row in groups.tolist()]
        spread = [row for row in spread if row]
        deviations = [_std(row) for row in spread]
        found["reward_std"] = [sum(deviations), float(len(spread))]
        found["frac_reward_zero_std"] = [float(sum(min(r) == max(r) for r in spread)), float(len(spread))]
        ended = [len(r["ids"]) for r in rollouts if not r["truncated"]]
        found["completions/mean_length"] = [float(sum(len(r["ids"]) for r in rollouts)), float(count)]
        found["completions/mean_terminated_length"] = [float(sum(ended)), float(len(ended))]
        found["completions/clipped_ratio"] = [float(count - len(ended)), float(count)]
        return found

    # -- the loss
    def items(self, batch: Batch) -> Items:
        return {"sequences": batch["sequences"], "tokens": int(batch["mask"].sum())}

    def tokens(self, batch: Batch) -> int:
        return batch["num_tokens"]

    def loss(self, model: nn.Module, batch: Batch, items: Items) -> tuple[Tensor, Sums]:
        recipe = self._recipe
        scores = score(model, batch, temperature=recipe.temperature)
        log_p, mask = scores.log_p, scores.mask.to(scores.log_p.dtype)
        # A completion that is used once was drawn by the very weights that are trained: the ratio is exactly 1.
        old = batch["sampled"] if recipe.num_iterations > 1 else log_p.detach()
        log_ratio = log_p - old
        weights = objectives.log_weights(log_ratio, mask, recipe.importance_sampling_level).exp()
        losses = self._token_losses(log_p, log_ratio, weights, batch["advantages"], mask)
        chosen = mask
        if recipe.top_entropy_quantile < 1:
            chosen = objectives.high_entropy(scores.entropy.detach(), mask, recipe.top_entropy_quantile)
            losses = losses * chosen
        kl = None
        if recipe.beta:
            kl = divergence.ESTIMATORS[recipe.kl_estimator](log_p, batch["reference"])
            if recipe.use_bias_correction_kl:
                kl = kl * weights
            losses = losses + recipe.beta * kl
        total = aggregation.total(self._sum, losses, mask, recipe.max_completion_length)
        total = total / items[aggregation.KINDS[self._sum]] + scores.tie
        if recipe.entropy_coef:
            total = total - recipe.entropy_coef * (scores.entropy * chosen).sum() / items["tokens"]
        return total, self._sums(batch, scores, weights.detach(), mask, kl)

    def _token_losses(
        self, log_p: Tensor, log_ratio: Tensor, weights: Tensor, advantage: Tensor, mask: Tensor
    ) -> Tensor:
        recipe = self._recipe
        high = recipe.epsilon if recipe.epsilon_high is None else recipe.epsilon_high
        if self._objective == "cispo":
            return objectives.cispo(log_p, weights, advantage, high)
        if self._objective == "sapo":
            return objectives.sapo(weights, advantage)
        if self._objective == "vespo":
            return objectives.vespo(log_p, log_ratio, advantage, mask)
        return objectives.clip(weights, advantage, recipe.epsilon, high, recipe.delta, recipe.dual_clip)

    @torch.no_grad()
    def _sums(self, batch: Batch, scores: Scores, weights: Tensor, mask: Tensor, kl: Tensor | None) -> Sums:
        recipe, count = self._recipe, mask.sum()
        high = recipe.epsilon if recipe.epsilon_high is None else recipe.epsilon_high
        up = (weights > 1 + high) & (batch["advantages"] > 0)
        down = (weights < 1 - recipe.epsilon) & (batch["advantages"] < 0)
        apart = (scores.log_p.detach() - batch["sampled"]).abs()
        found: dict[str, Tensor] = {
            "entropy": (scores.entropy * mask).sum(),
            "clip_ratio/high_mean": (up * mask).sum(),
            "clip_ratio/low_mean": (down * mask).sum(),
            "clip_ratio/region_mean": ((up | down) * mask).sum(),
            "sampling/sampling_logp_difference/mean": (apart * mask).sum(),
        }
        if kl is not None:
            found["kl"] = (kl * mask).sum()
        sums = {name: torch.stack([value.float(), count.float()]) for name, value in found.items()}
        return sums | {name: mask.new_tensor(pair) for name, pair in batch["statistics"].items()}

    # -- state
    def state_dict(self) -> dict[str, Any]:
        """The windows drawn so far, and the rollouts that later steps will use again."""
        return {"drawn": self._drawn, "used": self._used, "kept": self._kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._drawn, self._used = int(state["drawn"]), int(state["used"])
        self._kept = state["kept"]


def _named(names: Sequence[str]) -> dict[str, Any]:
    """Reward functions under their names in metrics: the function's own, where no two are called the same."""
    short = [name.rpartition(":")[2] for name in names]
    return {own if short.count(own) == 1 else name: load(name) for own, name in zip(short, names)}


def _std(values: list[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1))


def _rows_like(mask: Tensor, rows: Tensor) -> Tensor:
    """``rows`` with as many rows as ``mask``, which has one of padding for a batch of nothing."""
    return torch.nn.functional.pad(rows, (0, 0, 0, mask.shape[0] - rows.shape[0]))
