"""DPO and its kin, KTO, reward models."""

from __future__ import annotations

from typing import Literal

from hetero.train.recipe.keys.section import Section, key
from hetero.train.recipe.values import Flag, Numbers, Real, Whole


class Preferences(Section):
    title = "Preferences"

    beta: Real = key(
        0.1,
        "How much the reference holds: strength of the KL penalty (IPO's tau); left out: 0 for `grpo`.",
        ge=0,
    )
    loss_weights: Numbers | None = key(
        None,
        "Weights of the losses in `loss_type`; 1 each when left out.",
        examples=[[1.0, 0.2]],
    )
    label_smoothing: Real = key(
        0.0,
        "Share of pairs whose order may be wrong: cDPO with `sigmoid`, robust DPO, EXO's epsilon.",
        ge=0,
        lt=0.5,
    )
    f_divergence_type: Literal["reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"] = key(
        "reverse_kl", "Divergence between policy and reference that DPO penalises."
    )
    f_alpha_divergence_coef: Real = key(0.5, "Alpha of `alpha_divergence`.")
    discopop_tau: Real = key(0.05, "Temperature of `discopop`.", gt=0)
    simpo_gamma: Real = key(0.5, "Margin of `simpo`.", ge=0)
    ld_alpha: Real | None = key(
        None, "LD-DPO: weight of the tokens beyond the shorter answer's length.", ge=0, le=1
    )
    disable_dropout: Flag = key(True, "Train without dropout, also the adapter's.")
    ref_model_name_or_path: str | None = key(
        None, "Reference model, when it is not the one that training starts from."
    )
    precompute_ref_log_probs: Flag = key(
        False,
        "Compute the reference's log-probabilities once, before training, and keep them on disk.",
    )
    precompute_ref_batch_size: Whole | None = key(
        None, "Rows per forward pass for that; the training batch's when left out.", ge=1
    )
    ref_cache_dir: str | None = key(
        None,
        "Where they are kept; `hetero/reference` in the user's cache folder when left out.",
    )
    sync_ref_model: Flag = key(False, "TR-DPO: the reference follows the policy.")
    ref_model_mixup_alpha: Real = key(0.6, "Share of the policy in the new reference.", gt=0, le=1)
    ref_model_sync_steps: Whole = key(512, "Steps between two such moves.", ge=1)
    desirable_weight: Real = key(1.0, "KTO: weight of the good answers' losses.", gt=0)
    undesirable_weight: Real = key(1.0, "KTO: weight of the bad answers' losses.", gt=0)
    center_rewards_coefficient: Real | None = key(
        None, "Reward model: penalty on rewards whose mean is not 0; 0.01 is usual.", ge=0
    )
