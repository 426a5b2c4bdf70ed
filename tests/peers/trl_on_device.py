"""Run TRL's own trainers, unmodified, on the device named in the command, and print their numbers as JSON.

    python tests/peers/trl_on_device.py npu sft grpo generate

Runs in the peers' environment, with the repository on PYTHONPATH for the builtin tiny model and data.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from transformers import set_seed
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from hetero.train.data.builtin import arithmetic
from hetero.train.model.tiny import tiny_model, tiny_tokenizer

#: (rows a micro-batch, micro-batches) of the golden numbers that are repeated here.
SPLITS = ((8, 1), (2, 4))
SFT = {"nll": {}, "assistant": {"assistant_only_loss": True}, "dft": {"loss_type": "dft"}}
GRPO: dict[str, dict[str, Any]] = {
    **{loss: {"loss_type": loss} for loss in ("grpo", "bnpo", "dr_grpo", "dapo", "sapo", "vespo")},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
    "dapo_clip_higher": {"loss_type": "dapo", "epsilon_high": 0.28},
    "dapo_delta1.5": {"loss_type": "dapo", "delta": 1.5},
    "gspo(grpo+sequence)": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    "luspo+sequence": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "grpo_kl_k3": {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False},
    "grpo_kl_k3_is": {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": True},
    "dapo_top_entropy_0.5": {"loss_type": "dapo", "top_entropy_quantile": 0.5},
    "dapo_entropy_coef_0.01": {"loss_type": "dapo", "entropy_coef": 0.01},
}


def main() -> None:
    device, *parts = sys.argv[1:]
    torch.set_num_threads(1)
    results: dict[str, Any] = {"device": str(torch.empty(1, device=device).device)}
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            run: Callable[[str], Any] = {"sft": sft, "grpo": grpo, "generate": generate}[part]
            results[part] = run(folder)
    print("RESULTS " + json.dumps(results))


def common(folder: str, **more: Any) -> dict[str, Any]:
    return {
        "output_dir": folder,
        "report_to": "none",
        "save_strategy": "no",
        "bf16": False,
        "gradient_checkpointing": False,
        "seed": 0,
        "logging_steps": 1,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "dataloader_pin_memory": False,
        **more,
    }


def in_order(trainer: Any) -> Any:
    """The same rows in the same batches as the golden numbers."""
    trainer._get_train_sampler = lambda *_, **__: torch.utils.data.SequentialSampler(trainer.train_dataset)
    return trainer


def sft(folder: str) -> dict[str, Any]:
    tokenizer = tiny_tokenizer()
    rows = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a * (1 + i % 3)}]}
        for i, (q, a, _) in enumerate(arithmetic(8))
    ]
    found = {}
    for loss, keys in SFT.items():
        for size, steps in SPLITS:
            model = tiny_model(tokenizer, seed=1)
            arguments = SFTConfig(
                per_device_train_batch_size=size,
                gradient_accumulation_steps=steps,
                max_length=256,
                **common(folder, max_steps=1, max_grad_norm=1e9, shuffle_dataset=False, **keys),
            )
            trainer = in_order(
                SFTTrainer(
                    model, arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
                )
            )
            trainer.train()
            log = trainer.state.log_history[0]
            weights = sum(float(p.detach().cpu().double().abs().sum()) for p in model.parameters())
            found[f"{loss}_bs{size}_ga{steps}"] = {
                "loss": log["loss"],
                "grad_norm": log["grad_norm"],
                "w": weights,
                "device": str(next(model.parameters()).device),
            }
    return found


def rollout(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Four hand-made sequences with log-probabilities near the model's own; drawn on the CPU."""
    draw = torch.Generator().manual_seed(7)
    count, prompt, answer = 4, 6, 10
    batch = {
        "prompt_ids": torch.randint(3, 300, (count, prompt), generator=draw),
        "prompt_mask": torch.ones(count, prompt, dtype=torch.long),
        "completion_ids": torch.randint(3, 300, (count, answer), generator=draw),
        "completion_mask": torch.ones(count, answer, dtype=torch.long),
        "advantages": torch.tensor([1.2, -0.7, 0.4, -0.9]),
    }
    for row, length in enumerate((10, 7, 4, 9)):
        batch["completion_mask"][row, length:] = 0
    batch["prompt_ids"][1, :2] = 0
    batch["prompt_mask"][1, :2] = 0
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    device = next(model.parameters()).device
    with torch.no_grad():
        logits = model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits.float()
    log_probs = torch.log_softmax(logits, -1)[:, prompt - 1 : -1].cpu()
    own = log_probs.gather(-1, batch["completion_ids"][..., None])[..., 0]
    batch["old_per_token_logps"] = own + 0.3 * torch.randn(count, answer, generator=draw)
    batch["ref_per_token_logps"] = own + 0.2 * torch.randn(count, answer, generator=draw)
    batch["num_items_in_batch"] = batch["completion_mask"].sum()
    return {name: value.to(device) for name, value in batch.items()}


def grpo(folder: str) -> dict[str, Any]:
    tokenizer = tiny_tokenizer()
    found = {}
    for setting, keys in GRPO.items():
        model = tiny_model(tokenizer, seed=1)
        trainer = _grpo_trainer(
            folder, model, tokenizer, beta=0.0, **{k: v for k, v in keys.items() if k != "beta"}
        )
        trainer.beta = keys.get(
            "beta", 0.0
        )  # set late: the reference's log-probabilities are given, not computed
        trainer.current_gradient_accumulation_steps = 1
        model.eval()
        batch = rollout(trainer.model)
        trainer.model.train()
        loss = trainer._compute_loss(trainer.model, batch)
        loss.backward()
        squares = sum(
            float((p.grad.cpu().double() ** 2).sum()) for p in model.parameters() if p.grad is not None
        )
        found[setting] = {"loss": loss.item(), "grad_norm": squares**0.5}
    return found


def generate(folder: str) -> dict[str, Any]:
    """Two whole GRPO steps, sampling and all: what moves, not what TRL's CPU run would give (the RNG differs)."""
    tokenizer = tiny_tokenizer()
    set_seed(0)
    model = tiny_model(tokenizer, seed=1)
    before = [p.detach().clone() for p in model.parameters()]
    trainer = _grpo_trainer(folder, model, tokenizer, max_steps=2, loss_type="dapo")
    trainer.train()
    history = [row for row in trainer.state.log_history if "loss" in row]
    moved = sum(bool((a != b.detach().cpu()).any()) for a, b in zip(before, model.parameters()))
    return {
        "device": str(next(model.parameters()).device),
        "losses": [row["loss"] for row in history],
        "rewards": [row["reward"] for row in history],
        "lengths": [row["completions/mean_length"] for row in history],
        "parameters_moved": moved,
        "parameters": len(before),
    }


def _grpo_trainer(folder: str, model: torch.nn.Module, tokenizer: Any, **keys: Any) -> GRPOTrainer:
    arguments = GRPOConfig(
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=16,
        **common(folder, **keys),
    )
    questions = Dataset.from_list([{"prompt": question} for question, _, _ in arithmetic(8)])
    return GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [float(len(set(text))) for text in completions],
        args=arguments,
        train_dataset=questions,
        processing_class=tokenizer,
    )


if __name__ == "__main__":
    main()
