"""LoRA through PEFT: which layers get an adapter, in which dtype, and what is refused with a reason."""

from __future__ import annotations

import contextlib
import difflib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from hetero.errors import ModelError

ALL_LINEAR = "all-linear"


@dataclass(frozen=True)
class TrainableReport:
    """How much of a model is trained. `str()` gives one line."""

    trainable: int
    total: int
    dtypes: tuple[str, ...]

    def __str__(self) -> str:
        share = 100 * self.trainable / max(self.total, 1)
        kinds = ", ".join(self.dtypes)
        return f"{self.trainable:,} of {self.total:,} parameters trained ({share:.2f} %, {kinds})"


def trainable_report(model: nn.Module) -> TrainableReport:
    """Count `model`'s parameters; a tied weight counts once."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return TrainableReport(
        trainable=sum(p.numel() for p in trained),
        total=sum(p.numel() for p in model.parameters()),
        dtypes=tuple(sorted({str(p.dtype).removeprefix("torch.") for p in trained})),
    )


def add_lora(
    model: Any,
    *,
    r: int = 16,
    alpha: float = 32,
    dropout: float = 0.0,
    target_modules: str | Sequence[str] = ALL_LINEAR,
    modules_to_save: Sequence[str] | None = None,
    seed: int = 0,
    task: str = "CAUSAL_LM",
) -> Any:
    """Wrap a model in a PEFT model whose low-rank adapters are trained and whose base is frozen.

    A linear layer W becomes `W x + alpha / r * B A x`, with A random and B zero: the model starts unchanged.
    The adapters have the dtype of their base layer: mixed dtypes break sharded gathers, and a bf16 run keeps
    its float32 master weights in the optimiser.

    Args:
        target_modules: "all-linear" (every linear layer but the head), or names or name endings of layers.
        modules_to_save: modules trained in full and saved beside the adapters, for example ["embed_tokens"].
        task: PEFT's name for what the model does; "SEQ_CLS" trains a classifier's head in full.
        seed: seeds the initialisation of A; the caller's generator is left as it was.

    Raises:
        ModelError: no such layer, anything on the head, or a tied embedding trained in full.
    """
    from peft import LoraConfig, get_peft_model

    targets: str | list[str] = target_modules if isinstance(target_modules, str) else list(target_modules)
    if isinstance(targets, str) and targets != ALL_LINEAR:
        targets = [name.strip() for name in targets.split(",")]
    saved = list(modules_to_save or ())
    if targets != ALL_LINEAR:
        _check_names(model, targets, "lora_target_modules")
        _check_head(model, targets, "lora_target_modules")
    _check_names(model, saved, "lora_modules_to_save")
    _check_head(model, saved, "lora_modules_to_save")
    config = LoraConfig(
        r=r,
        lora_alpha=alpha,  # type: ignore[arg-type]  # any real works; PEFT only divides it by r
        lora_dropout=dropout,
        target_modules=targets,
        modules_to_save=saved or None,
        task_type=task,
    )
    with torch.random.fork_rng(devices=[]), quiet_peft():
        torch.manual_seed(seed)
        return get_peft_model(model, config, autocast_adapter_dtype=False)


@contextlib.contextmanager
def quiet_peft() -> Iterator[None]:
    """Without the warning that PEFT asks newer Transformers for a property by its old name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        yield


def _matches(name: str, target: str) -> bool:
    return name == target or name.endswith("." + target)


def _check_names(model: nn.Module, wanted: Sequence[str], key: str) -> None:
    names = [name for name, _ in model.named_modules() if name]
    endings = sorted({name.rsplit(".", 1)[-1] for name in names if not name.rsplit(".", 1)[-1].isdigit()})
    for target in wanted:
        if not any(_matches(name, target) for name in names):
            near = difflib.get_close_matches(target, endings, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(endings)}"
            raise ModelError(f"{key}: the model has no module {target!r}; {hint}")


def _check_head(model: Any, wanted: Sequence[str], key: str) -> None:
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head is None:  # a classifier: its head is PEFT's business
        return
    names = {id(module): name for name, module in model.named_modules()}
    if any(_matches(names[id(head)], target) for target in wanted):
        raise ModelError(
            f"{key} names the head {names[id(head)]!r}: the fused loss reads the head's weight directly and "
            "would not see what PEFT puts over it; leave it out, or train the whole model (use_peft: false)"
        )
    if embedding.weight is head.weight and any(_matches(names[id(embedding)], target) for target in wanted):
        raise ModelError(
            f"{key} names {names[id(embedding)]!r}, whose weight is also the head's: PEFT would train a copy "
            "and the merged model would lose one of the two; leave it out, or train the whole model"
        )
