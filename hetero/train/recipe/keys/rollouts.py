"""Completions, their rewards, and the losses over them."""

from __future__ import annotations

from typing import Literal

from hetero.train.recipe.keys.section import Section, key
from hetero.train.recipe.values import Flag, Names, Numbers, Real, Whole


class Rollouts(Section):
    title = "Rollouts"

    num_generations: Whole = key(8, "Completions of each prompt, which are compared with each other.", ge=2)
    max_prompt_length: Whole | None = key(None, "Longer prompts are left out.", ge=1)
    max_completion_length: Whole = key(512, "Longest completion in tokens.", ge=1)
    temperature: Real = key(1.0, "Of the sampling; logits are divided by it.", ge=0)
    top_p: Real = key(1.0, "Sample from the likeliest tokens of this total probability.", gt=0, le=1)
    top_k: Whole = key(0, "Sample from the k likeliest tokens; 0: all.", ge=0)
    min_p: Real = key(
        0.0, "Sample from tokens with this share of the likeliest one's probability.", ge=0, le=1
    )
    repetition_penalty: Real = key(1.0, "Above 1: tokens that were there before are less likely.", gt=0)
    rollout_batch_size: Whole = key(32, "Completions that are decoded together.", ge=1)
    reward_funcs: Names | None = key(
        None,
        "Reward functions: builtin names, `package.module:function`, or `file.py:function` (relative to the "
        "recipe), with TRL's signature; or the folder of a reward model.",
        examples=[["think_format", "rewards.py:correct"]],
    )
    reward_weights: Numbers | None = key(None, "Weights of the rewards; 1 each when left out.")
    reward_errors: Literal["raise", "skip"] = key(
        "raise", "A reward function that fails ends the run, or is left out for that step."
    )
    reward_timeout: Real | None = key(
        600.0, "Seconds after which a call of a reward function has failed; `null`: no limit.", gt=0
    )
    advantage_estimator: Literal["group", "leave_one_out", "gdpo"] = key(
        "group",
        "`group`: GRPO, relative to the group's mean. `leave_one_out`: RLOO. `gdpo`: each reward by itself.",
    )
    scale_rewards: Literal["group", "batch", "none"] = key(
        "group",
        "What an advantage is divided by: the rewards' spread in the group, the batch, or nothing.",
    )
    num_iterations: Whole = key(1, "Steps that each completion is used for.", ge=1)
    importance_sampling_level: Literal["token", "sequence"] = key(
        "token", "Ratios of tokens, or of whole sequences (GSPO)."
    )
    epsilon: Real = key(0.2, "Clipping: ratios below 1 - epsilon ...", gt=0)
    epsilon_high: Real | None = key(
        None, "... and above 1 + this (`cispo`: above this); epsilon when left out.", gt=0
    )
    delta: Real | None = key(None, "Upper bound of the ratio where the advantage is negative.", gt=1)
    dual_clip: Real | None = key(
        None, "Bound of the loss of bad tokens, in units of the advantage; 3 is usual.", gt=1
    )
    mask_truncated_completions: Flag = key(False, "Leave completions without an end out of the loss.")
    top_entropy_quantile: Real = key(
        1.0, "Train on this share of the tokens, those of the highest entropy.", gt=0, le=1
    )
    entropy_coef: Real = key(0.0, "Weight of the mean entropy, which is raised.", ge=0)
    kl_estimator: Literal["k1", "k2", "k3"] = key("k3", "Estimate of the divergence in the loss.")
    use_bias_correction_kl: Flag = key(True, "Multiply that estimate by the ratio.")
