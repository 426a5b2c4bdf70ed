"""Norm layers: `rms_norm` (Llama's and Gemma's casting, weight offset) and `layer_norm`."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hetero import ops
from hetero.train.patching.compare import DTYPES, distance, random, require, values_and_gradients
from hetero.train.patching.kind import Refused, Swap
from hetero.train.patching.swap import Swapped


@dataclass(frozen=True)
class RMSNormSpec:
    """The arguments of `hetero.ops.rms_norm` for one layer."""

    eps: float
    offset: float
    casting: str


class RMSNorm(Swapped):
    """Forward of an RMSNorm layer through `hetero.ops.rms_norm`."""

    hetero: RMSNormSpec
    weight: Tensor | None

    def forward(self, hidden_states: Tensor) -> Tensor:
        spec = self.hetero
        return ops.rms_norm(hidden_states, self.weight, spec.eps, offset=spec.offset, casting=spec.casting)


class LayerNorm(Swapped):
    """Forward of a LayerNorm layer through `hetero.ops.layer_norm`; its state is epsilon."""

    hetero: float
    weight: Tensor | None

    def forward(self, hidden_states: Tensor) -> Tensor:
        return ops.layer_norm(hidden_states, self.weight, getattr(self, "bias", None), self.hetero)


class Norms:
    """A norm is a childless module with an epsilon, at most a 1-D weight and bias, and one input."""

    def key(self, module: nn.Module, model: nn.Module) -> Hashable | None:
        own = dict(module.named_parameters(recurse=False))
        eps = _epsilon(module)
        if (
            eps is None
            or next(module.children(), None) is not None
            or next(module.buffers(), None) is not None
        ):
            return None
        if not set(own) <= {"weight", "bias"} or any(p.dim() != 1 for p in own.values()):
            return None
        return type(module), eps, tuple((name, len(p), p.device) for name, p in own.items())

    def check(self, module: nn.Module, model: nn.Module) -> Swap:
        if len(inspect.signature(type(module).forward).parameters) != 2:
            raise Refused("its forward takes more than the hidden states")
        eps = _epsilon(module)
        assert eps is not None
        candidates = _candidates(module, eps)
        # A rounding in another place shows in bf16 only, as many small differences: the nearest wins.
        best = min(candidates, key=lambda swap: _mean_difference(module, swap))
        for dtype in DTYPES:
            probe, x = _probe(module, dtype)
            probe.hetero = best.state
            old = values_and_gradients(_call(probe, type(module)), x, *probe.parameters())
            new = values_and_gradients(_call(probe, best.mixin), x, *probe.parameters())
            # The weight's gradient is a sum over rows, which bf16 models accumulate in their own ways.
            count = len(old) if dtype == torch.float32 else 2
            require(new[:count], old[:count], f"hetero.ops.{best.op}")
        return best


def _epsilon(module: nn.Module) -> float | None:
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    return eps if isinstance(eps, float) else None


def _candidates(module: nn.Module, eps: float) -> list[Swap]:
    layer_norm = Swap("layer_norm", LayerNorm, eps)
    if getattr(module, "bias", None) is not None:
        return [layer_norm]
    specs = [RMSNormSpec(eps, offset, casting) for casting in ("llama", "gemma") for offset in (0.0, 1.0)]
    return [Swap("rms_norm", RMSNorm, spec) for spec in specs] + [layer_norm]


def _probe(module: nn.Module, dtype: torch.dtype) -> tuple[Any, Tensor]:
    """A copy with random weights, and rows whose mean square is about epsilon, one and large."""
    probe = copy.deepcopy(module).to(dtype)
    own = list(probe.parameters())
    anchor = own[0] if own else next(iter(module.parameters()), torch.empty(0))
    width = len(own[0]) if own else 64
    with torch.no_grad():
        for parameter in own:
            parameter.copy_(random(width, like=parameter, dtype=dtype))
    scale = torch.tensor([1e-3, 1.0, 30.0], dtype=dtype, device=anchor.device)[:, None]
    return probe, random(8, 3, width, like=anchor, dtype=dtype) * scale


def _call(probe: Any, cls: Any) -> Callable[..., Tensor]:
    """`cls.forward` on `probe` as a function of its input and its parameters."""
    names = [name for name, _ in probe.named_parameters()]

    def call(x: Tensor, *parameters: Tensor) -> Tensor:
        clone = copy.copy(probe)
        clone.__dict__["_parameters"] = {**probe._parameters, **dict(zip(names, parameters))}
        return cls.forward(clone, x)

    return call


def _mean_difference(module: nn.Module, swap: Swap) -> float:
    probe, x = _probe(module, torch.bfloat16)
    probe.hetero = swap.state
    with torch.no_grad():
        old, new = _call(probe, type(module))(x), _call(probe, swap.mixin)(x)
    if distance(new, old) == float("inf"):
        return float("inf")
    return float((new.float() - old.float()).abs().mean())
