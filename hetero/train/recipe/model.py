"""The recipe: every key of a training run, its type, default and meaning. Names are those of TRL.

`hetero.train.recipe.reference` renders this file into docs/recipes.md: descriptions are documentation.
"""

from __future__ import annotations

from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hetero.train.recipe.algorithms import with_defaults
from hetero.train.recipe.depends import DEPENDS
from hetero.train.recipe.values import Flag, Names, Numbers, Real, Reporters, Whole


def _key(section: str, default: Any, description: str, **constraints: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"section": section}, **constraints)


class Recipe(BaseModel):
    """A validated training recipe. `hetero.train.recipe.load` makes one from a YAML file and overrides.

    Paths are absolute after `load`. `max_steps` above 0 wins over `num_train_epochs`, as in TRL.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    # --- what to do
    algorithm: Literal["sft", "dpo", "kto", "rm", "grpo"] = _key(
        "Run",
        "sft",
        "`sft`: supervised fine-tuning. `dpo`: from pairs of answers, with the whole DPO family. `kto`: from answers "
        "that are good or bad. `rm`: a reward model. `grpo`: from completions that reward functions score.",
    )
    output_dir: str = _key(
        "Run",
        "runs/sft",
        "Run directory: checkpoints, metrics, the resolved recipe and the trained model. "
        "Relative to the current directory; `runs/<recipe name>` when left out.",
    )
    overwrite_output_dir: Flag = _key(
        "Run", False, "Delete what an earlier run left in `output_dir` and start anew."
    )
    resume_from_checkpoint: Flag | str | None = _key(
        "Run", None, "`true` continues from the newest intact checkpoint in `output_dir`; a path names one."
    )
    resume_allow_changes: Names | None = _key(
        "Run",
        None,
        "Keys that may differ from the checkpoint's when resuming; also `data`, `op_policy`, or `all`.",
        examples=[["learning_rate", "data"]],
    )
    seed: Whole = _key("Run", 42, "Seed of data order, dropout, NEFTune and new weights.", ge=0, lt=2**32)
    device: str | None = _key(
        "Run", None, "`cpu`, `cuda`, `ascend`, `metax:1` ...; the best one found when left out."
    )
    ops: str | None = _key(
        "Run",
        None,
        "Which implementation each op uses, in the grammar of `HETERO_OPS`.",
        examples=["rms_norm=reference"],
    )

    # --- model
    model_name_or_path: str = _key(
        "Model",
        ...,
        "A Transformers model folder (relative to the recipe), a Hub name in the local cache, or the "
        "builtin `hetero:tiny-qwen2` / `hetero:tiny-llama`.",
        examples=["models/SmolLM2-135M-Instruct"],
    )
    dtype: Literal["float32", "bfloat16"] = _key(
        "Model", "float32", "Type of the weights and of the computation."
    )
    attn_implementation: str = _key(
        "Model", "sdpa", "Attention of Transformers: `sdpa`, `eager` or another it knows."
    )
    gradient_checkpointing: Flag = _key(
        "Model", False, "Recompute activations in the backward pass: less memory, about a third more time."
    )
    trust_remote_code: Literal[False] = _key(
        "Model",
        False,
        "Code inside a model folder is never run; the key exists so that other tools' recipes load.",
    )
    chat_template_path: str | None = _key(
        "Model", None, "A Jinja chat template that replaces the tokenizer's (relative to the recipe)."
    )
    eos_token: str | None = _key(
        "Model", None, "End token, when the tokenizer's own is not the one that ends a turn."
    )
    resize_token_embeddings: Flag = _key(
        "Model", False, "Add embedding rows for tokens that the model lacks."
    )

    # --- LoRA
    use_peft: Flag = _key("LoRA", False, "Train a LoRA adapter instead of all weights.")
    lora_r: Whole = _key("LoRA", 16, "Rank of the adapter.", ge=1)
    lora_alpha: Real = _key(
        "LoRA", 32.0, "Scale of the adapter: its output is multiplied by alpha / r.", gt=0
    )
    lora_dropout: Real = _key("LoRA", 0.05, "Dropout in front of the adapter.", ge=0, lt=1)
    lora_target_modules: Literal["all-linear"] | Names = _key(
        "LoRA", "all-linear", "Layers that get an adapter, by name.", examples=[["q_proj", "v_proj"]]
    )
    lora_modules_to_save: Names | None = _key("LoRA", None, "Layers trained whole beside the adapter.")

    # --- data
    dataset_name: str = _key(
        "Data",
        ...,
        "A `.jsonl`, `.json` or `.parquet` file, a folder written by `Dataset.save_to_disk` or one that "
        "holds such files per split (relative to the recipe), or the builtin `hetero:arithmetic`.",
        examples=["data/train.jsonl"],
    )
    dataset_train_split: str = _key("Data", "train", "Split of a dataset folder to train on.")
    eval_dataset_name: str | None = _key("Data", None, "Data for evaluation, in the forms of `dataset_name`.")
    dataset_test_split: str | None = _key(
        "Data", None, "Split to evaluate on: of `eval_dataset_name` when given, else of `dataset_name`."
    )
    partial_last_line: Literal["skip", "error"] = _key(
        "Data", "skip", "A JSONL file whose last line is cut off: skip that line with a warning, or stop."
    )
    max_length: Whole | None = _key(
        "Data",
        1024,
        "Longest sequence in tokens; the end of longer ones is cut off, and counted (`rm`: the pair is left out). "
        "`null`: no limit.",
        ge=2,
    )
    completion_only_loss: Flag | None = _key(
        "Data", None, "Train on the completion of prompt-completion data only. Left out: yes for such data."
    )
    assistant_only_loss: Flag = _key(
        "Data", False, "Train only on what the assistant says in `messages` data."
    )
    chat_template_kwargs: dict[str, Any] | None = _key(
        "Data",
        None,
        "Variables for the chat template, as `{enable_thinking: false}`; a row's own column wins.",
    )
    packing: Flag = _key(
        "Data", False, "Join short examples into rows of `max_length`; they do not see each other."
    )
    packing_strategy: Literal["bfd"] = _key("Data", "bfd", "How rows are filled: best-fit decreasing.")
    shuffle_dataset: Flag = _key("Data", True, "Visit the rows in a new order every epoch.")

    # --- optimisation
    max_steps: Whole = _key("Training", -1, "Optimiser steps; -1 leaves it to `num_train_epochs`.", ge=-1)
    num_train_epochs: Real = _key("Training", 3.0, "Passes over the data.", gt=0)
    per_device_train_batch_size: Whole = _key("Training", 8, "Rows per device and forward pass.", ge=1)
    gradient_accumulation_steps: Whole = _key("Training", 1, "Forward passes per optimiser step.", ge=1)
    learning_rate: Real = _key(
        "Training", 2e-5, "Peak learning rate; left out: 1e-6 for `dpo` and `kto`, 1e-4 for `rm`.", ge=0
    )
    lr_scheduler_type: Literal["cosine", "linear", "constant", "constant_with_warmup"] = _key(
        "Training", "linear", "How the learning rate falls after warm-up."
    )
    warmup_steps: Whole = _key("Training", 0, "Steps over which the learning rate rises from 0.", ge=0)
    warmup_ratio: Real = _key("Training", 0.0, "The same as a share of all steps.", ge=0, le=1)
    weight_decay: Real = _key(
        "Training", 0.0, "AdamW weight decay, on matrices; biases and norms have none.", ge=0
    )
    adam_beta1: Real = _key("Training", 0.9, "AdamW beta 1.", ge=0, lt=1)
    adam_beta2: Real = _key("Training", 0.999, "AdamW beta 2.", ge=0, lt=1)
    adam_epsilon: Real = _key("Training", 1e-8, "AdamW epsilon.", gt=0)
    max_grad_norm: Real = _key(
        "Training", 1.0, "Gradients are scaled down to this norm; 0 leaves them.", ge=0
    )
    loss_type: Names | None = _key(
        "Training",
        None,
        "`sft`: `nll` is cross-entropy, `dft` each token's loss times its own probability. `dpo`: one loss or several, "
        "`grpo`: how tokens are weighed and summed, both listed in training.md. `kto`: `kto` or `apo_zero_unpaired`. "
        "Left out: `nll`, `sigmoid`, `kto`, `dapo`.",
        examples=[["sigmoid", "sft"]],
    )
    neftune_noise_alpha: Real | None = _key(
        "Training", None, "Strength of NEFTune noise on the embeddings.", gt=0
    )

    # --- preferences
    beta: Real = _key(
        "Preferences",
        0.1,
        "How much the reference holds: strength of the KL penalty (IPO's tau); left out: 0 for `grpo`.",
        ge=0,
    )
    loss_weights: Numbers | None = _key(
        "Preferences",
        None,
        "Weights of the losses in `loss_type`; 1 each when left out.",
        examples=[[1.0, 0.2]],
    )
    label_smoothing: Real = _key(
        "Preferences",
        0.0,
        "Share of pairs whose order may be wrong: cDPO with `sigmoid`, robust DPO, EXO's epsilon.",
        ge=0,
        lt=0.5,
    )
    f_divergence_type: Literal["reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"] = _key(
        "Preferences", "reverse_kl", "Divergence between policy and reference that DPO penalises."
    )
    f_alpha_divergence_coef: Real = _key("Preferences", 0.5, "Alpha of `alpha_divergence`.")
    discopop_tau: Real = _key("Preferences", 0.05, "Temperature of `discopop`.", gt=0)
    simpo_gamma: Real = _key("Preferences", 0.5, "Margin of `simpo`.", ge=0)
    ld_alpha: Real | None = _key(
        "Preferences", None, "LD-DPO: weight of the tokens beyond the shorter answer's length.", ge=0, le=1
    )
    disable_dropout: Flag = _key("Preferences", True, "Train without dropout, also the adapter's.")
    ref_model_name_or_path: str | None = _key(
        "Preferences", None, "Reference model, when it is not the one that training starts from."
    )
    precompute_ref_log_probs: Flag = _key(
        "Preferences",
        False,
        "Compute the reference's log-probabilities once, before training, and keep them on disk.",
    )
    precompute_ref_batch_size: Whole | None = _key(
        "Preferences", None, "Rows per forward pass for that; the training batch's when left out.", ge=1
    )
    ref_cache_dir: str | None = _key(
        "Preferences",
        None,
        "Where they are kept; `hetero/reference` in the user's cache folder when left out.",
    )
    sync_ref_model: Flag = _key("Preferences", False, "TR-DPO: the reference follows the policy.")
    ref_model_mixup_alpha: Real = _key(
        "Preferences", 0.6, "Share of the policy in the new reference.", gt=0, le=1
    )
    ref_model_sync_steps: Whole = _key("Preferences", 512, "Steps between two such moves.", ge=1)
    desirable_weight: Real = _key("Preferences", 1.0, "KTO: weight of the good answers' losses.", gt=0)
    undesirable_weight: Real = _key("Preferences", 1.0, "KTO: weight of the bad answers' losses.", gt=0)
    center_rewards_coefficient: Real | None = _key(
        "Preferences", None, "Reward model: penalty on rewards whose mean is not 0; 0.01 is usual.", ge=0
    )

    # --- rollouts
    num_generations: Whole = _key(
        "Rollouts", 8, "Completions of each prompt, which are compared with each other.", ge=2
    )
    max_prompt_length: Whole | None = _key("Rollouts", None, "Longer prompts are left out.", ge=1)
    max_completion_length: Whole = _key("Rollouts", 512, "Longest completion in tokens.", ge=1)
    temperature: Real = _key("Rollouts", 1.0, "Of the sampling; logits are divided by it.", ge=0)
    top_p: Real = _key(
        "Rollouts", 1.0, "Sample from the likeliest tokens of this total probability.", gt=0, le=1
    )
    top_k: Whole = _key("Rollouts", 0, "Sample from the k likeliest tokens; 0: all.", ge=0)
    min_p: Real = _key(
        "Rollouts", 0.0, "Sample from tokens with this share of the likeliest one's probability.", ge=0, le=1
    )
    repetition_penalty: Real = _key(
        "Rollouts", 1.0, "Above 1: tokens that were there before are less likely.", gt=0
    )
    rollout_batch_size: Whole = _key("Rollouts", 32, "Completions that are decoded together.", ge=1)
    reward_funcs: Names | None = _key(
        "Rollouts",
        None,
        "Reward functions: builtin names, `package.module:function`, or `file.py:function` (relative to the "
        "recipe), with TRL's signature.",
        examples=[["think_format", "rewards.py:correct"]],
    )
    reward_weights: Numbers | None = _key("Rollouts", None, "Weights of the rewards; 1 each when left out.")
    reward_errors: Literal["raise", "skip"] = _key(
        "Rollouts", "raise", "A reward function that fails ends the run, or is left out for that step."
    )
    advantage_estimator: Literal["group", "leave_one_out", "gdpo"] = _key(
        "Rollouts",
        "group",
        "`group`: GRPO, relative to the group's mean. `leave_one_out`: RLOO. `gdpo`: each reward by itself.",
    )
    scale_rewards: Literal["group", "batch", "none"] = _key(
        "Rollouts",
        "group",
        "What an advantage is divided by: the rewards' spread in the group, the batch, or nothing.",
    )
    num_iterations: Whole = _key("Rollouts", 1, "Steps that each completion is used for.", ge=1)
    importance_sampling_level: Literal["token", "sequence"] = _key(
        "Rollouts", "token", "Ratios of tokens, or of whole sequences (GSPO)."
    )
    epsilon: Real = _key("Rollouts", 0.2, "Clipping: ratios below 1 - epsilon ...", gt=0)
    epsilon_high: Real | None = _key(
        "Rollouts", None, "... and above 1 + this (`cispo`: above this); epsilon when left out.", gt=0
    )
    delta: Real | None = _key(
        "Rollouts", None, "Upper bound of the ratio where the advantage is negative.", gt=1
    )
    dual_clip: Real | None = _key(
        "Rollouts", None, "Bound of the loss of bad tokens, in units of the advantage; 3 is usual.", gt=1
    )
    mask_truncated_completions: Flag = _key(
        "Rollouts", False, "Leave completions without an end out of the loss."
    )
    top_entropy_quantile: Real = _key(
        "Rollouts", 1.0, "Train on this share of the tokens, those of the highest entropy.", gt=0, le=1
    )
    entropy_coef: Real = _key("Rollouts", 0.0, "Weight of the mean entropy, which is raised.", ge=0)
    kl_estimator: Literal["k1", "k2", "k3"] = _key(
        "Rollouts", "k3", "Estimate of the divergence in the loss."
    )
    use_bias_correction_kl: Flag = _key("Rollouts", True, "Multiply that estimate by the ratio.")

    # --- evaluation, logging, saving
    per_device_eval_batch_size: Whole = _key(
        "Evaluation, logging, saving", 8, "Rows per device in evaluation.", ge=1
    )
    eval_steps: Whole | None = _key(
        "Evaluation, logging, saving", None, "Evaluate every so many steps; left out: at the end only.", ge=1
    )
    logging_steps: Whole = _key(
        "Evaluation, logging, saving", 10, "Steps between lines on the screen; files get every step.", ge=1
    )
    save_steps: Whole = _key(
        "Evaluation, logging, saving", 500, "Steps between checkpoints; 0: only at the end.", ge=0
    )
    save_total_limit: Whole | None = _key(
        "Evaluation, logging, saving", None, "Keep only the newest checkpoints, this many.", ge=1
    )
    report_to: Reporters = _key(
        "Evaluation, logging, saving",
        ["tensorboard"],
        "Where metrics go beside `metrics.jsonl`; `none` for nowhere.",
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_algorithm(cls, values: Any) -> Any:
        return with_defaults(values) if isinstance(values, dict) else values

    @property
    def has_eval(self) -> bool:
        """Whether the recipe names evaluation data."""
        return self.eval_dataset_name is not None or self.dataset_test_split is not None

    def to_yaml(self) -> str:
        """The resolved recipe as YAML that `load` reads back to an equal recipe."""
        fields = Recipe.model_fields
        values = {
            k: v for k, v in self.model_dump().items() if v is not None or fields[k].default is not None
        }
        for key, (other, wanted) in DEPENDS.items():
            if values.get(other) not in wanted:
                values.pop(key, None)
        if self.max_steps > 0:
            values.pop("num_train_epochs")
        return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
