"""Feed-forward blocks `down(act(gate(x)) * up(x))`: `swiglu` and `geglu`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hetero import ops
from hetero.train.patching.compare import DTYPES, device_of, random, require, values_and_gradients
from hetero.train.patching.kind import Refused, Swap
from hetero.train.patching.swap import Swapped, stand_in

ACTIVATION_NAMES = ("act_fn", "activation_fn")
SEPARATE = {"gate_proj", "up_proj", "down_proj"}
JOINED = {"gate_up_proj", "down_proj"}
_WIDTH = 48


@dataclass(frozen=True)
class Gate:
    """The gated activation of a block: an op of hetero and its approximation, if it has a choice."""

    op: str
    approximate: str | None = None

    def __call__(self, gate: Tensor, up: Tensor) -> Tensor:
        if self.approximate is None:
            return ops.swiglu(gate, up)
        return ops.geglu(gate, up, self.approximate)


GATES = (Gate("swiglu"), Gate("geglu", "tanh"), Gate("geglu", "none"))


class SeparateMLP(Swapped):
    """A block with a projection each for gate and up."""

    hetero: Gate

    def forward(self, x: Tensor) -> Tensor:
        children: Any = self
        return children.down_proj(self.hetero(children.gate_proj(x), children.up_proj(x)))


class JoinedMLP(Swapped):
    """A block with one projection for both (Phi-3, GLM): the first half of its output is the gate."""

    hetero: Gate

    def forward(self, x: Tensor) -> Tensor:
        children: Any = self
        gate, up = children.gate_up_proj(x).chunk(2, dim=-1)
        return children.down_proj(self.hetero(gate, up))


class GatedMLPs:
    """Recognised by its projections, whatever they are made of (linear, with LoRA, quantised).

    The check replaces the projections by simple functions, so that it compares what the block does with them
    at the cost of a few hundred numbers, not of a matrix product with its weights.
    """

    def key(self, module: nn.Module, model: nn.Module) -> Hashable | None:
        names = {name for name, _ in module.named_children()} | set(module._parameters)
        if not (names >= SEPARATE or names >= JOINED):
            return None
        activation = _activation(module)
        kind = type(activation) if isinstance(activation, nn.Module) else activation
        return type(module), kind, frozenset(names), device_of(module)

    def check(self, module: nn.Module, model: nn.Module) -> Swap:
        if module._parameters:
            raise Refused("its projections are stacked parameters (mixture of experts), not linear layers")
        activation = _activation(module)
        children = {name for name, child in module.named_children() if child is not activation}
        if children not in (SEPARATE, JOINED):
            raise Refused(f"it has more than gate, up and down: {', '.join(sorted(children))}")
        if len(inspect.signature(type(module).forward).parameters) != 2:
            raise Refused("its forward takes more than the hidden states")
        mixin = SeparateMLP if children == SEPARATE else JoinedMLP
        reasons = []
        for gate in GATES:
            try:
                _compare(module, mixin, gate)
            except Refused as refusal:
                reasons.append(str(refusal))
            else:
                return Swap(gate.op, mixin, gate)
        raise Refused(f"its activation is none of silu, gelu and tanh-gelu ({reasons[0]})")


def _activation(module: nn.Module) -> Any:
    return next((getattr(module, name) for name in ACTIVATION_NAMES if hasattr(module, name)), None)


def _compare(module: nn.Module, mixin: Any, gate: Gate) -> None:
    projections: dict[str, nn.Module | None] = {
        "gate_proj": _Function(lambda x: x * 3),
        "up_proj": _Function(lambda x: x.flip(-1)),
        "gate_up_proj": _Function(lambda x: torch.cat((x * 3, x.flip(-1)), -1)),
        "down_proj": _Function(lambda x: x * 0.5),
    }
    block = stand_in(module, {name: projections[name] for name in module._modules if name in projections})
    block.hetero = gate
    anchor = next(module.parameters())
    for dtype in DTYPES:
        x = random(2, 5, _WIDTH, like=anchor, dtype=dtype)
        old = values_and_gradients(lambda t: type(module).forward(block, t), x)
        new = values_and_gradients(lambda t: mixin.forward(block, t), x)
        require(new, old, f"hetero.ops.{gate.op}")


class _Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)
