"""``transfer_to_supa``: ``torch.cuda`` answers for Biren's device, as it does after ``torch_supa`` is autoloaded."""

from __future__ import annotations

import functools
from typing import Any

#: torch's version.cuda there, which comes from SUDA's cuda.h.
CUDA = "11.8"
_FACTORIES = (
    *("arange", "as_tensor", "asarray", "empty", "empty_like", "empty_strided", "eye", "full", "full_like"),
    *("linspace", "logspace", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn"),
    *("randn_like", "randperm", "tensor", "tril_indices", "triu_indices", "zeros", "zeros_like", "load"),
)
_installed = False


def install(backend: str) -> None:
    """Put ``torch.supa`` in ``torch.cuda``'s place; ``nccl`` means ``backend``. Once a process."""
    global _installed
    if _installed:
        return
    _installed = True
    import torch
    import torch.distributed as dist

    supa: Any = torch.supa  # type: ignore[attr-defined]
    for name in supa.__all__:
        setattr(torch.cuda, name, getattr(supa, name))
    torch.cuda.is_tf32_supported = lambda: True  # type: ignore[attr-defined]
    torch.cuda.DoubleTensor = torch.cuda.FloatTensor  # type: ignore[misc]
    torch.version.cuda = CUDA
    torch.jit.script = _identity  # type: ignore[assignment]
    for name in _FACTORIES:
        setattr(torch, name, _translated(getattr(torch, name)))
    for name in ("to", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"):
        setattr(torch.Tensor, name, _translated(getattr(torch.Tensor, name)))
    torch.nn.Module.to = _translated(torch.nn.Module.to)  # type: ignore[method-assign]
    torch.Tensor.cuda = torch.Tensor.supa  # type: ignore[attr-defined,method-assign]
    torch.nn.Module.cuda = torch.nn.Module.supa  # type: ignore[attr-defined,method-assign]
    for name in ("init_process_group", "new_group"):
        setattr(dist, name, _backend(getattr(dist, name), backend))


def _identity(obj: Any = None, *args: Any, **kwargs: Any) -> Any:
    return obj


def _supa(value: Any) -> Any:
    import torch

    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "supa" + value[4:]
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("supa", value.index) if value.index is not None else torch.device("supa")
    if isinstance(value, dict):
        return {_supa(k): _supa(v) for k, v in value.items()}
    return value


def _translated(plain: Any) -> Any:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in ("device", "map_location"):
            if name in kwargs:
                kwargs[name] = _supa(kwargs[name])
        return plain(*(_supa(a) if not isinstance(a, dict) else a for a in args), **kwargs)

    return call


def _backend(plain: Any, backend: str) -> Any:
    def renamed(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return value.replace("cuda:nccl", f"supa:{backend}").replace("nccl", backend)

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "backend" in kwargs:
            kwargs["backend"] = renamed(kwargs["backend"])
        return plain(*map(renamed, args), **kwargs)

    return call
