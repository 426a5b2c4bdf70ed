"""Model weights to and from safetensors, under the names the live model uses; tied weights once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from hetero.errors import CheckpointError

MODEL = "model.safetensors"
ADAPTER = "adapter_model.safetensors"
_ADAPTER_NAME = "default"


def has_adapter(model: nn.Module) -> bool:
    """Whether ``model`` is a base model with a PEFT adapter, of which only the adapter is saved."""
    return hasattr(model, "peft_config")


def _live(model: nn.Module) -> dict[str, Tensor]:
    """The tensors that define ``model``. A tied weight appears once, under the name it has first."""
    kept = {name: p.detach() for name, p in model.named_parameters(remove_duplicate=True)}
    persistent = model.state_dict(keep_vars=False).keys()
    return kept | {name: b for name, b in model.named_buffers() if name in persistent}


def _adapter(model: nn.Module) -> dict[str, Tensor]:
    from peft import get_peft_model_state_dict

    return get_peft_model_state_dict(model, adapter_name=_ADAPTER_NAME, save_embedding_layers=False)


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors of any device to one safetensors file."""
    save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, path, metadata={"format": "pt"})


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file onto the CPU."""
    if not path.is_file():
        raise CheckpointError(f"{path} is missing")
    with safe_open(path, framework="pt", device="cpu") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


def write(model: Any, directory: Path) -> None:
    """Write the weights, or only the adapter where there is one, with the configuration beside them."""
    if has_adapter(model):
        save_tensors(_adapter(model), directory / ADAPTER)
        config = model.peft_config[_ADAPTER_NAME]
        training, config.inference_mode = config.inference_mode, True
        config.save_pretrained(str(directory))
        config.inference_mode = training
        return
    save_tensors(_live(model), directory / MODEL)
    model.config.architectures = [type(model).__name__]
    model.config.dtype = model.dtype
    model.config.save_pretrained(str(directory))
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(str(directory))


def read(model: Any, directory: Path) -> None:
    """Copy what :func:`write` wrote into ``model``, in place. Names and shapes must match exactly."""
    adapter = has_adapter(model)
    _copy(directory / (ADAPTER if adapter else MODEL), _adapter(model) if adapter else _live(model))


def write_module(module: nn.Module, path: Path) -> None:
    """Write the weights of a model that is saved beside the trained one."""
    save_tensors(_live(module), path)


def read_module(module: nn.Module, path: Path) -> None:
    """Copy what :func:`write_module` wrote into ``module``, in place."""
    _copy(path, _live(module))


@torch.no_grad()
def _copy(path: Path, live: dict[str, Tensor]) -> None:
    saved = load_tensors(path)
    problems = [f"{name} is missing" for name in sorted(set(live) - set(saved))]
    problems += [f"{name} is not in the model" for name in sorted(set(saved) - set(live))]
    problems += [
        f"{name} has shape {tuple(saved[name].shape)}, the model {tuple(live[name].shape)}"
        for name in sorted(set(saved) & set(live))
        if saved[name].shape != live[name].shape
    ]
    if problems:
        raise CheckpointError(f"{path} does not fit the model: " + "; ".join(problems[:10]))
    for name, tensor in live.items():
        tensor.copy_(saved[name])
