"""Attention: `hetero.ops.attention` in place of Transformers' sdpa, for a whole model or not at all.

Which function attends is a setting of the model, so nothing is swapped: the setting changes, once every kind of
attention module in the model has been seen to give the same numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hetero import ops
from hetero.train.model import attention
from hetero.train.patching.compare import distance, random, values_and_gradients
from hetero.train.patching.kind import Refused
from hetero.train.patching.report import PatchReport
from hetero.train.patching.rotary import tables

_BEFORE = "sdpa"
#: As in compare.py, for two kernels that sum in other orders, of which one may round probabilities to bf16.
_ULPS = {torch.float32: 64, torch.bfloat16: 16, torch.float16: 16}
_ROWS, _TOKENS = 2, 9
_PACKED = [[0, 1, 2, 0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 5, 0, 1, 2]]
_PADDED = [[1] * 9, [1] * 6 + [0] * 3]


def exchange(model: nn.Module, report: PatchReport) -> None:
    """Set ``model`` to hetero's attention if all its attention modules allow it."""
    for owner in _owners(model):
        modules = [m for m in owner.modules() if _is_attention(m)]
        if not modules:
            continue
        attention.register()
        tried: dict[Hashable, str] = {}
        for module in modules:
            key = type(module), getattr(module, "sliding_window", None)
            if key not in tried:
                tried[key] = _problem(module, owner)
            if tried[key]:
                report.kept[type(module).__name__, tried[key]] += 1
        if not any(tried.values()):
            _set(owner, attention.NAME)
            report.swapped["attention"] += len(modules)


def restore(model: nn.Module) -> None:
    """Undo :func:`exchange`."""
    for owner in model.modules():
        if _implementation(owner) == attention.NAME:
            _set(owner, _BEFORE)


def _owners(model: nn.Module) -> Iterator[Any]:
    """The outermost Transformers model in ``model`` whose attention is sdpa."""
    for module in model.modules():
        if hasattr(module, "set_attn_implementation") and _implementation(module) == _BEFORE:
            yield module
            return


def _implementation(module: Any) -> str | None:
    return getattr(getattr(module, "config", None), "_attn_implementation", None)


def _set(owner: Any, name: str) -> None:
    """By attribute, since `set_attn_implementation` wants to know of the class whether it can."""
    for module in owner.modules():
        if _implementation(module) is not None:
            module.config._attn_implementation = name


def _is_attention(module: nn.Module) -> bool:
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _problem(module: Any, owner: Any) -> str:
    """Why ``module`` must keep its attention; empty when it need not."""
    try:
        _check(module, owner)
    except Refused as refusal:
        return str(refusal)
    except Exception as error:  # noqa: BLE001 - the model's code is foreign; what it raised is the reason reported
        return f"trying it raised {type(error).__name__}: {error}"
    return ""


def _check(module: Any, owner: Any) -> None:
    if not getattr(module, "is_causal", False):
        raise Refused("its attention is not causal")
    if getattr(module, "attention_dropout", 0.0):
        raise Refused("its attention drops out, which hetero.ops.attention cannot")
    like = next(module.parameters())
    _require_kernel(like)
    packed = torch.tensor(_PACKED, device=like.device)
    plain = torch.arange(_TOKENS, device=like.device).expand(_ROWS, -1)
    padded = torch.tensor(_PADDED, device=like.device)
    for what, positions, padding in (
        ("rows", plain, None),
        ("packed rows", packed, None),
        ("padded rows", plain, padded),
    ):
        given = _inputs(module, owner, positions, like)
        old, new = (_run(module, name, given, padding) for name in (_BEFORE, attention.NAME))
        for a, b in zip(new, old, strict=True):
            if (ulps := distance(a, b)) > _ULPS[b.dtype]:
                raise Refused(f"hetero.ops.attention differs on {what} by {ulps:.0f} units in the last place")


def _require_kernel(like: Tensor) -> None:
    """Plain torch attention of ours would be slower than sdpa."""
    x = torch.empty(1, 1, 1, 64, device=like.device, dtype=like.dtype)
    bounds = torch.tensor([0, 1], dtype=torch.int32)
    for name, args in (("attention", (x, x, x)), ("attention_varlen", (x[0], x[0], x[0], bounds))):
        chosen = ops.explain(name, *args, scale=1.0, causal=True).as_dict()
        if any(decision["chosen"] == "reference" for decision in chosen.values()):
            raise Refused(f"no kernel for hetero.ops.{name} is proven here")


def _inputs(module: Any, owner: Any, positions: Tensor, like: Tensor) -> dict[str, Any]:
    """What a decoder layer passes on, as far as this module takes it."""
    found = [(cos.to(like.dtype), sin.to(like.dtype)) for cos, sin in tables(owner, like, positions)]
    if not found:
        raise Refused("the model has no module with inv_freq to take the angles from")
    known = {"position_embeddings": found[0], "position_ids": positions}
    wanted = inspect.signature(type(module).forward).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in wanted.values())
    return {name: value for name, value in known.items() if takes_all or name in wanted}


def _run(module: Any, name: str, given: dict[str, Any], padding: Tensor | None) -> list[Tensor]:
    """Output and the gradient of the hidden states with attention ``name``; nothing of what is padding."""
    from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

    config, like = module.config, next(module.parameters())
    x = random(_ROWS, _TOKENS, config.hidden_size, like=like, dtype=like.dtype)
    make = (
        create_sliding_window_causal_mask if getattr(module, "sliding_window", None) else create_causal_mask
    )
    training = module.training
    before = config._attn_implementation
    config._attn_implementation = name
    module.eval()
    try:
        mask = make(config, x, padding, None, position_ids=given["position_ids"])
        keep = torch.ones(_ROWS, _TOKENS, 1, device=x.device) if padding is None else padding[..., None]
        keep = keep.to(x.dtype)
        return values_and_gradients(
            lambda h: module(hidden_states=h, attention_mask=mask, **given)[0] * keep, x
        )
    finally:
        config._attn_implementation = before
        module.train(training)
