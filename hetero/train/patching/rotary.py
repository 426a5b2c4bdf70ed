"""Rotary embedding in attention: `rope` in place of Transformers' `apply_rotary_pos_emb`.

Attention modules call that function by its global name. The swapped class has a forward of its own with
the same code, in which the name means `hetero.ops.rope`. Neither the modeling module nor other models change.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterator
from types import CellType, FunctionType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hetero import ops
from hetero.train.patching.compare import DTYPES, device_of, random, require, values_and_gradients
from hetero.train.patching.kind import Refused, Swap
from hetero.train.patching.swap import Swapped

FUNCTION = "apply_rotary_pos_emb"
_POSITIONS = [[0, 1, 2, 3, 4], [0, 1, 0, 1, 2]]
_PARAMETERS = ["q", "k", "cos", "sin", "unsqueeze_dim"]


class Attention(Swapped):
    """The attention module's own forward, with :attr:`rope` for the rotary embedding.

    A subclass for each pairing of features and layout of the tables (each angle stands in them twice).
    """

    rope: ClassVar[Callable[..., tuple[Tensor, Tensor]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "original" in vars(cls):
            cls.forward = rebound(cls.original.forward, cls.rope)  # type: ignore[attr-defined]


class HalvesAttention(Attention):
    """Pairs (i, i + R/2) and tables to match: Llama, Qwen, Mistral, Gemma, Phi."""

    @staticmethod
    def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        return ops.rope(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)


class NeighboursAttention(Attention):
    """Pairs (2i, 2i + 1) and tables to match: Cohere."""

    @staticmethod
    def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        return ops.rope(q, k, cos, sin, interleaved=True, unsqueeze_dim=unsqueeze_dim)


class MixedAttention(Attention):
    """Pairs (2i, 2i + 1), but tables laid out for halves: GLM."""

    @staticmethod
    def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        width = cos.shape[-1]
        cos, sin = cos[..., : width // 2], sin[..., : width // 2]
        return ops.rope(q, k, cos, sin, interleaved=True, rotary_dim=width, unsqueeze_dim=unsqueeze_dim)


def rebound(function: Any, rope: Callable[..., Any]) -> Any:
    """`function`, decorators included, with the global name `apply_rotary_pos_emb` meaning `rope`."""
    inner = getattr(function, "__wrapped__", None)
    scope, closure = function.__globals__, function.__closure__
    if inner is None:
        # Without a module name, torch.compile too looks globals up here and not in the modeling module.
        scope = {name: value for name, value in scope.items() if name != "__name__"} | {FUNCTION: rope}
    else:
        replacement = rebound(inner, rope)
        closure = tuple(CellType(replacement) if c.cell_contents is inner else c for c in closure)
    copy: Any = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(copy, function)
    if inner is None:
        del copy.__wrapped__
    else:
        copy.__wrapped__ = replacement
    return copy


class Rotary:
    """Recognised by a forward that uses a global `apply_rotary_pos_emb`."""

    def key(self, module: nn.Module, model: nn.Module) -> Hashable | None:
        code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
        if code is None or FUNCTION not in code.co_names:
            return None
        return type(module), device_of(module)

    def check(self, module: nn.Module, model: nn.Module) -> Swap:
        apply = inspect.unwrap(type(module).forward).__globals__.get(FUNCTION)
        if apply is None or list(inspect.signature(apply).parameters) != _PARAMETERS:
            raise Refused(f"{FUNCTION} does not take {', '.join(_PARAMETERS)}")
        anchor = next(module.parameters())
        found = list(tables(model, anchor, torch.tensor(_POSITIONS, device=anchor.device)))
        if not found:
            raise Refused("the model has no module with inv_freq to take the angles from")
        refusals = []
        for mixin in (HalvesAttention, NeighboursAttention, MixedAttention):
            try:
                _compare(apply, mixin.rope, found)
            except Refused as refusal:
                refusals.append(refusal)
            else:
                return Swap("rope", mixin)
        raise refusals[0]


def tables(model: nn.Module, anchor: Tensor, positions: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """cos and sin [rows, tokens, R] of each rotary embedding of the model at ``positions``, in float32."""
    x = torch.zeros(*positions.shape, 1, device=anchor.device)
    for module in list(model.modules()):
        if any(name.endswith("inv_freq") for name, _ in module.named_buffers(recurse=False)):
            for layer_type in getattr(module, "layer_types", [None]):
                yield module(x, positions) if layer_type is None else module(x, positions, layer_type)


def _compare(apply: Any, rope: Any, found: list[tuple[Tensor, Tensor]]) -> None:
    for cos, sin in found:
        width = cos.shape[-1]
        for dtype in DTYPES:
            c, s = cos.to(dtype), sin.to(dtype)
            for head in (width, 2 * width):  # all of a head's features turn, or the first half of them
                # [batch, tokens, heads, head] in memory, as projections give them
                q = random(2, 5, 4, head, like=cos, dtype=dtype).transpose(1, 2)
                k = random(2, 5, 2, head, like=cos, dtype=dtype).transpose(1, 2)
                try:
                    old = values_and_gradients(lambda a, b: apply(a, b, c, s), q, k)  # noqa: B023
                except RuntimeError as error:
                    if head == width:
                        raise Refused(f"{FUNCTION} cannot be tried: {error}") from error
                    continue  # such a model cuts the turning features out by itself
                new = values_and_gradients(lambda a, b: rope(a, b, c, s), q, k)  # noqa: B023
                require(new, old, "hetero.ops.rope")
