"""What the settings of other tools are called here. Names are those of their documentation, mid-2026.

A tool's own defaults are written out where ours differ, so that the converted recipe trains as there.
"""

from __future__ import annotations

from typing import Any

#: Settings that are the same under another name. A name of ours needs no entry.
RENAMED: dict[str, str] = {
    # LLaMA-Factory
    "cutoff_len": "max_length",
    "lora_rank": "lora_r",
    "lora_target": "lora_target_modules",
    "additional_target": "lora_modules_to_save",
    "pref_beta": "beta",
    "pref_loss": "loss_type",
    "ref_model": "ref_model_name_or_path",
    "dpo_label_smoothing": "label_smoothing",
    "ld_alpha": "ld_alpha",
    "kto_chosen_weight": "desirable_weight",
    "kto_rejected_weight": "undesirable_weight",
    "eval_dataset": "eval_dataset_name",
    # TRL, Transformers
    "torch_dtype": "dtype",
    "max_seq_length": "max_length",
    "reward_model_name_or_path": "reward_funcs",
    # ms-swift
    "model": "model_name_or_path",
    "dataset": "dataset_name",
    "val_dataset": "eval_dataset_name",
    "target_modules": "lora_target_modules",
    "modules_to_save": "lora_modules_to_save",
    "attn_impl": "attn_implementation",
    "flash_attn": "attn_implementation",
}

#: Settings that hetero has no use for: what they ask for happens anyway, or is about the other tool's workings.
NOT_NEEDED = {
    "do_train", "do_eval", "do_predict", "overwrite_cache", "preprocessing_num_workers", "dataloader_num_workers",
    "dataset_num_proc", "ddp_timeout", "plot_loss", "remove_unused_columns", "dataset_dir", "info", "logging_strategy",
    "save_strategy", "eval_strategy", "evaluation_strategy", "ddp_find_unused_parameters", "use_fast_tokenizer",
    "load_from_cache_file", "num_processes", "dataset_text_field", "model_type", "bnb_4bit_quant_type",
    "bnb_4bit_compute_dtype", "use_bnb_nested_quant", "double_quantization", "logging_first_step", "save_only_model",
    "save_safetensors", "use_hf", "check_model", "log_completions", "task", "model_author", "model_name",
    "neat_packing", "upcast_layernorm", "include_num_input_tokens_seen", "gradient_checkpointing_kwargs", "stage",
    "finetuning_type", "tuner_type", "train_type", "rlhf_type", "bf16", "fp16", "pure_bf16", "tf32", "swift_command",
    "trl_command", "llamafactory_command", "train_on_prompt", "pref_ftx", "rpo_alpha", "cpo_alpha", "template",
    "disable_gradient_checkpointing", "use_cpu", "no_cuda",
}  # fmt: skip

#: Why a setting has no counterpart, and what to do. A setting in neither table is named without a reason.
NO_COUNTERPART = {
    "quantization_bit": "quantised base models are not supported yet; this recipe trains on the 16-bit base",
    "quantization_method": "quantised base models are not supported yet",
    "quant_bits": "quantised base models are not supported yet",
    "quant_method": "quantised base models are not supported yet",
    "load_in_4bit": "quantised base models are not supported yet; this recipe trains on the 16-bit base",
    "load_in_8bit": "quantised base models are not supported yet; this recipe trains on the 16-bit base",
    "deepspeed": "there is DDP only, which holds a whole model on each device",
    "fsdp": "there is DDP only, which holds a whole model on each device",
    "fsdp_config": "there is DDP only, which holds a whole model on each device",
    "accelerate_config": "start several ranks with torchrun",
    "val_size": "split off a file for evaluation and name it in eval_dataset_name",
    "split_dataset_ratio": "split off a file for evaluation and name it in eval_dataset_name",
    "max_samples": "shorten the file",
    "system": "write the system message into the rows",
    "mask_history": "all assistant turns are trained on",
    "loss_scale": "the tokens trained on are chosen by assistant_only_loss, without weights",
    "use_dora": "only plain LoRA so far",
    "use_rslora": "only plain LoRA so far",
    "pissa_init": "only plain LoRA so far",
    "loraplus_lr_ratio": "only plain LoRA so far",
    "lorap_lr_ratio": "only plain LoRA so far",
    "optim": "the optimiser is AdamW",
    "push_to_hub": "`hetero export` writes the folder to upload",
    "use_vllm": "completions are sampled in the training process",
    "vllm_mode": "completions are sampled in the training process",
    "resume_from_checkpoint": "a checkpoint of another tool cannot be gone on from",
    "truncation_strategy": "the end of longer rows is cut off",
    "external_plugins": "name functions as file.py:function in reward_funcs",
    "enable_liger_kernel": "hetero's own fused ops are used",
    "use_liger_kernel": "hetero's own fused ops are used",
    "use_unsloth": "hetero's own fused ops are used",
    "adapter_name_or_path": "merge the adapter into the model first",
}

#: Reward functions of TRL and ms-swift that have a builtin twin.
REWARDS = {
    "think_format_reward": "think_format",
    "format": "think_format",
    "repetition": "repetition",
    "soft_overlong": "soft_overlong",
    "get_soft_overlong_punishment": "soft_overlong",
}

_LLAMAFACTORY = {
    "learning_rate": 5e-5, "max_length": 2048, "gradient_checkpointing": True, "lr_scheduler_type": "linear",
    "lora_dropout": 0.0,
}  # fmt: skip
_TRL = {"gradient_checkpointing": True}
_SWIFT = {
    "gradient_checkpointing": True, "lr_scheduler_type": "cosine", "warmup_ratio": 0.05,
    "per_device_train_batch_size": 1, "dtype": "bfloat16", "lora_r": 8, "weight_decay": 0.1, "adam_beta2": 0.95,
}  # fmt: skip
#: tool -> defaults that are its own.
DEFAULTS: dict[str, dict[str, Any]] = {"llamafactory": _LLAMAFACTORY, "trl": _TRL, "swift": _SWIFT}

#: Spellings of values.
VALUES: dict[str, dict[Any, Any]] = {
    "lora_target_modules": {"all": "all-linear"},
    "dtype": {"bf16": "bfloat16", "fp32": "float32", "auto": "bfloat16", "float16": "bfloat16", "fp16": "bfloat16"},
    "attn_implementation": {
        "auto": "sdpa", "fa2": "sdpa", "flash_attn": "sdpa", "flash_attention_2": "sdpa", "flash_attention_3": "sdpa",
        "disabled": "eager",
    },
    "report_to": {"all": "tensorboard"},
}  # fmt: skip
