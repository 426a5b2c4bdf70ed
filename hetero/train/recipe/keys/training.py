"""Optimisation."""

from __future__ import annotations

from typing import Literal

from hetero.train.recipe.keys.section import Section, key
from hetero.train.recipe.values import Names, Real, Whole


class Training(Section):
    title = "Training"

    max_steps: Whole = key(-1, "Optimiser steps; -1 leaves it to `num_train_epochs`.", ge=-1)
    num_train_epochs: Real = key(3.0, "Passes over the data.", gt=0)
    per_device_train_batch_size: Whole = key(8, "Rows per device and forward pass.", ge=1)
    gradient_accumulation_steps: Whole = key(1, "Forward passes per optimiser step.", ge=1)
    learning_rate: Real = key(
        2e-5, "Peak learning rate; left out: 1e-6 for `dpo` and `kto`, 1e-4 for `rm`.", ge=0
    )
    lr_scheduler_type: Literal["cosine", "linear", "constant", "constant_with_warmup"] = key(
        "linear", "How the learning rate falls after warm-up."
    )
    warmup_steps: Whole = key(0, "Steps over which the learning rate rises from 0.", ge=0)
    warmup_ratio: Real = key(0.0, "The same as a share of all steps.", ge=0, le=1)
    weight_decay: Real = key(0.0, "AdamW weight decay, on matrices; biases and norms have none.", ge=0)
    adam_beta1: Real = key(0.9, "AdamW beta 1.", ge=0, lt=1)
    adam_beta2: Real = key(0.999, "AdamW beta 2.", ge=0, lt=1)
    adam_epsilon: Real = key(1e-8, "AdamW epsilon.", gt=0)
    max_grad_norm: Real = key(1.0, "Gradients are scaled down to this norm; 0 leaves them.", ge=0)
    loss_type: Names | None = key(
        None,
        "`sft`: `nll` is cross-entropy, `dft` each token's loss times its own probability. `dpo`: one loss or several, "
        "`grpo`: how tokens are weighed and summed, both listed in training.md. `kto`: `kto` or `apo_zero_unpaired`. "
        "Left out: `nll`, `sigmoid`, `kto`, `dapo`.",
        examples=[["sigmoid", "sft"]],
    )
    neftune_noise_alpha: Real | None = key(None, "Strength of NEFTune noise on the embeddings.", gt=0)
