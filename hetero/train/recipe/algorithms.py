"""What depends on the algorithm: which losses it has, and defaults, which are TRL's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Losses against a reference that compare the two answers of a pair, so that any f-divergence fits.
_DIFFERENCE = ("sigmoid", "sigmoid_norm", "hinge", "ipo", "robust", "exo_pair", "discopop")
_OTHER = ("nca_pair", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_zero", "apo_down")
WITH_REFERENCE = (*_DIFFERENCE, *_OTHER)
WITHOUT_REFERENCE = ("cpo", "simpo", "orpo")

#: algorithm -> the losses it knows; the first is the default.
LOSSES: dict[str, tuple[str, ...]] = {
    "sft": ("nll", "dft"),
    "dpo": (*WITH_REFERENCE, *WITHOUT_REFERENCE, "sft"),
    "kto": ("kto", "apo_zero_unpaired"),
    "rm": (),
    "grpo": ("dapo", "grpo", "bnpo", "dr_grpo", "luspo", "cispo", "sapo", "vespo"),
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "dpo": {"learning_rate": 1e-6},
    "kto": {"learning_rate": 1e-6},
    "rm": {"learning_rate": 1e-4},
    "grpo": {"learning_rate": 1e-6, "beta": 0.0, "disable_dropout": False},
}
SMOOTHED = ("sigmoid", "robust", "exo_pair", "aot", "aot_unpaired", "cpo", "simpo")


def with_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """`values` of a recipe, with what its algorithm sets where they do not."""
    algorithm = values.get("algorithm", "sft")
    own = dict(DEFAULTS.get(algorithm, {}) if isinstance(algorithm, str) else {})
    if losses := LOSSES.get(algorithm) if isinstance(algorithm, str) else None:
        own["loss_type"] = [losses[0]]
    return own | values


def has_reference(losses: Iterable[str]) -> bool:
    """Whether these losses of DPO compare with a reference model. `sft` alone does so for its metrics, as in TRL."""
    return bool({*losses}.intersection(WITH_REFERENCE)) or not {*losses}.intersection(WITHOUT_REFERENCE)


def problems(recipe: Any) -> list[tuple[str, str]]:
    """(key, what is wrong) about the losses of `recipe`."""
    names = recipe.loss_type or []
    known = LOSSES[recipe.algorithm]
    found: list[tuple[str, str]] = []
    if strange := [name for name in names if name not in known]:
        found.append(
            ("loss_type", f"{recipe.algorithm} has no loss {strange[0]!r}; it has: {', '.join(known)}")
        )
    if recipe.algorithm in ("dpo", "kto") and not recipe.beta:
        found.append(("beta", f"must be above 0 for {recipe.algorithm}"))
    if recipe.algorithm == "grpo":
        found += _rollouts(recipe)
    if recipe.algorithm != "dpo":
        if len(names) > 1:
            found.append(("loss_type", f"{recipe.algorithm} has one loss at a time, not {len(names)}"))
        return found
    if len(set(names)) != len(names) or not names:
        found.append(("loss_type", "name each loss once, and at least one"))
    if recipe.loss_weights is not None and len(recipe.loss_weights) != len(names):
        found.append(("loss_weights", f"{len(recipe.loss_weights)} weights for {len(names)} losses"))
    return found + _options(recipe, set(names)) + _reference(recipe, set(names))


def _options(recipe: Any, names: set[str]) -> list[tuple[str, str]]:
    found = []
    if recipe.label_smoothing and not names.intersection(SMOOTHED):
        found.append(("label_smoothing", f"has no effect on this loss; it has on {', '.join(SMOOTHED)}"))
    if "exo_pair" in names and not recipe.label_smoothing:
        found.append(("loss_type", "exo_pair needs a label_smoothing above 0, for example 1e-3"))
    if recipe.f_divergence_type != "reverse_kl" and (unfit := names - {*_DIFFERENCE, "sft"}):
        found.append(
            ("f_divergence_type", f"{recipe.f_divergence_type} does not exist for {sorted(unfit)[0]}")
        )
    if recipe.ld_alpha is not None and names <= {"sft", "simpo", "orpo"}:
        found.append(("ld_alpha", "is about sums over tokens, which this loss does not have"))
    return found


def _reference(recipe: Any, names: set[str]) -> list[tuple[str, str]]:
    found = []
    if not has_reference(names):
        for key in ("ref_model_name_or_path", "precompute_ref_log_probs", "sync_ref_model"):
            if getattr(recipe, key):
                found.append((key, f"has no effect: {', '.join(sorted(names))} has no reference model"))
    elif recipe.sync_ref_model:
        for key, why in (
            ("use_peft", "the reference of an adapter is the model without it, which never changes"),
            ("precompute_ref_log_probs", "a reference that changes cannot be computed before"),
        ):
            if getattr(recipe, key):
                found.append(("sync_ref_model", f"does not go with {key}: {why}"))
    return found


def _rollouts(recipe: Any) -> list[tuple[str, str]]:
    found = []
    completions = recipe.per_device_train_batch_size * recipe.gradient_accumulation_steps
    if completions % recipe.num_generations:
        found.append(
            (
                "num_generations",
                f"{recipe.num_generations} completions a prompt do not fill a step of {completions} "
                "(per_device_train_batch_size x gradient_accumulation_steps) evenly",
            )
        )
    if not recipe.reward_funcs:
        found.append(("reward_funcs", "name at least one reward function"))
    elif recipe.reward_weights is not None and len(recipe.reward_weights) != len(recipe.reward_funcs):
        count = len(recipe.reward_weights)
        found.append(("reward_weights", f"{count} weights for {len(recipe.reward_funcs)} reward_funcs"))
    if recipe.advantage_estimator != "group" and recipe.scale_rewards != "group":
        found.append(("scale_rewards", f"has no effect on {recipe.advantage_estimator} advantages"))
    if recipe.temperature == 0:
        found.append(("temperature", "must be above 0: at 0 all completions of a prompt are the same"))
    return found
