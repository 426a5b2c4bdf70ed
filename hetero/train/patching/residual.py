"""Residual add and the norm after it: `fused_add_rms_norm`, in decoder layers of two shapes.

* pre-norm (Llama, Qwen, Mistral, Gemma 1, Phi-3): `s = h + attn(norm1(h))`, `s + mlp(norm2(s))`
* sandwich (Gemma 2 and 3): `s = h + norm2(attn(norm1(h)))`, `s + norm4(mlp(norm3(s)))`

The add before `norm2` or `norm3` is fused with it. The add at the end of a layer stays: its norm belongs to
the next layer, and layers must remain whole for gradient checkpointing and sharding.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn

from hetero import ops
from hetero.train.patching.compare import DTYPES, device_of, random, require, values_and_gradients
from hetero.train.patching.kind import Refused, Swap
from hetero.train.patching.norms import RMSNorm
from hetero.train.patching.swap import Swapped, stand_in

PRE_NORM = {"input_layernorm", "self_attn", "post_attention_layernorm", "mlp"}
SANDWICH = PRE_NORM | {"pre_feedforward_layernorm", "post_feedforward_layernorm"}


def add_norm(norm: Any, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    """`(norm(residual + x), residual + x)`.

    Not fused under autocast, where the two may differ in dtype, nor when something has been put around `norm`
    since it was patched: a hook, or PEFT's copy that is trained in its place.
    """
    hooked = norm._forward_hooks or norm._forward_pre_hooks
    if hooked or not isinstance(norm, RMSNorm) or x.dtype != residual.dtype:
        total = residual + x
        return norm(total), total
    spec = norm.hetero
    return ops.fused_add_rms_norm(
        x, residual, norm.weight, spec.eps, offset=spec.offset, casting=spec.casting
    )


class PreNormLayer(Swapped):
    """Forward of a pre-norm decoder layer."""

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        layer: Any = self
        attended = layer.self_attn(hidden_states=layer.input_layernorm(hidden_states), **kwargs)[0]
        normed, residual = add_norm(layer.post_attention_layernorm, attended, hidden_states)
        return residual + layer.mlp(normed)


class SandwichLayer(Swapped):
    """Forward of a decoder layer with norms before and after both blocks."""

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        layer: Any = self
        attended = layer.self_attn(hidden_states=layer.input_layernorm(hidden_states), **kwargs)[0]
        attended = layer.post_attention_layernorm(attended)
        normed, residual = add_norm(layer.pre_feedforward_layernorm, attended, hidden_states)
        return residual + layer.post_feedforward_layernorm(layer.mlp(normed))


class Residuals:
    """Recognised by the names of its blocks; the check tries the wiring with simple functions for them."""

    def key(self, module: nn.Module, model: nn.Module) -> Hashable | None:
        children = dict(module.named_children())
        if not children.keys() >= PRE_NORM:
            return None
        dropout = tuple(child.p for child in children.values() if isinstance(child, nn.Dropout))
        kinds = tuple((name, type(child)) for name, child in children.items())
        return type(module), kinds, dropout, device_of(module)

    def check(self, module: nn.Module, model: nn.Module) -> Swap:
        children = dict(module.named_children())
        if any(isinstance(child, nn.Dropout) and child.p > 0 for child in children.values()):
            raise Refused("it drops out between block and residual add")
        names = {name for name, child in children.items() if not isinstance(child, nn.Dropout)}
        if names not in (PRE_NORM, SANDWICH):
            raise Refused(f"its blocks are not those of a known layer shape: {', '.join(sorted(names))}")
        if not all(isinstance(children[name], RMSNorm) for name in names if name.endswith("norm")):
            raise Refused("its norms are not patched RMSNorms")
        if not isinstance(children["mlp"], Swapped):
            raise Refused("its feed-forward block is not a patched gated MLP")
        mixin = PreNormLayer if names == PRE_NORM else SandwichLayer
        for dtype in DTYPES:
            self._compare(module, mixin, dtype)
        return Swap("fused_add_rms_norm", mixin)

    @staticmethod
    def _compare(module: nn.Module, mixin: Any, dtype: torch.dtype) -> None:
        attention = _Attention()
        replaced: dict[str, nn.Module | None] = {"self_attn": attention, "mlp": _Sine()}
        for number, (name, child) in enumerate(module.named_children()):
            if isinstance(child, RMSNorm):
                replaced[name] = _random_copy(child, number, dtype)
        layer = stand_in(module, replaced)
        norm: Any = replaced["input_layernorm"]
        given = {name: object() for name in ("attention_mask", "position_ids", "position_embeddings")}
        x = random(2, 5, norm.weight.shape[0], like=norm.weight, dtype=dtype)
        results, received = [], []
        for cls in (type(module), mixin):
            results.append(values_and_gradients(lambda t, cls=cls: cls.forward(layer, t, **given), x))
            received.append({key: value for key, value in attention.received.items() if value})
        if received[0] != received[1]:
            raise Refused("its attention is given other arguments than the layer")
        require(results[1], results[0], "the layer with hetero.ops.fused_add_rms_norm")


def _random_copy(norm: Any, number: int, dtype: torch.dtype) -> Any:
    """Weights that tell the norms of a layer apart."""
    probe = copy.deepcopy(norm).to(dtype)
    with torch.no_grad():
        probe.weight.copy_(random(number + 1, probe.weight.shape[0], like=probe.weight, dtype=dtype)[-1])
    return probe


class _Attention(nn.Module):
    def forward(self, hidden_states: Tensor, **kwargs: Any) -> tuple[Tensor, None]:
        self.received = kwargs
        return hidden_states.roll(1, -1) * 0.5, None


class _Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin()
