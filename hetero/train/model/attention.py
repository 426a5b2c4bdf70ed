"""`hetero.ops.attention` under Transformers' interface: ``attn_implementation="hetero"``.

Transformers asks one function for the mask of a pass and hands its answer to another, in every layer. Ours answers
with the least that says it: nothing where a query sees all before it (also where rows end in padding: what comes after
a token cannot reach it), the bounds of documents that lie behind one another, or else a mask of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hetero import ops
from hetero.errors import ModelError

NAME = "hetero"
#: The functions of transformers.masking_utils that a mask may be made of for the op to know it without seeing pairs.
_KNOWN = frozenset(
    {
        "and_masks",
        "causal_mask_function",
        "packed_sequence_mask_function",
        "remap_positions_for_packed_sequence",
        "sliding_window_overlay",
    }
)


def register() -> None:
    """Make ``attn_implementation="hetero"`` known to Transformers; again is harmless."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, mask)


def mask(**asked: Any) -> Tensor | None:
    """The mask of one pass: None (causal), int32 ``[documents + 1]`` (bounds in the joined rows), or bool
    ``[batch, 1, queries, keys]``. Takes what Transformers passes to the functions in its `AttentionMaskInterface`.
    """
    from transformers.masking_utils import sdpa_mask

    parts = dict(_parts(asked["mask_function"]))
    if (
        asked["q_length"] == asked["kv_length"]
        and parts.keys() <= _KNOWN
        and not torch.compiler.is_compiling()
    ):
        padding = asked["attention_mask"]
        if "packed_sequence_mask_function" in parts:
            if padding is None:
                return _bounds(_captured(parts["packed_sequence_mask_function"], "packed_sequence_mask"))
        elif padding is None or bool((padding[:, 1:] <= padding[:, :-1]).all()):
            return None
    return sdpa_mask(**asked)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    **other: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer.

    Args:
        query: ``[batch, heads, tokens, dim]``; ``key``, ``value`` with key heads and tokens of their own.
        attention_mask: what :func:`mask` gave.
        sliding_window: keys that a query sees, itself included.

    Returns:
        ``[batch, tokens, heads, dim]`` in memory as in shape, and no weights.

    Raises:
        ModelError: the layer wants dropout or attention sinks, which the op does not have.
    """
    if dropout or other.get("s_aux") is not None:
        what = "attention sinks" if other.get("s_aux") is not None else f"attention dropout of {dropout}"
        raise ModelError(
            f"{type(module).__name__} has {what}, which hetero.ops.attention lacks: use eager attention"
        )
    options: dict[str, Any] = {
        "scale": query.shape[-1] ** -0.5 if scaling is None else scaling,
        "causal": getattr(module, "is_causal", True) if is_causal is None else is_causal,
        "window_size": (-1, -1),
        "softcap": softcap,
    }
    if sliding_window is not None and sliding_window < key.shape[2]:
        options["window_size"] = (sliding_window - 1, -1 if options["causal"] else sliding_window - 1)
    if attention_mask is not None and attention_mask.dim() == 1:
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))
        out = ops.attention_varlen(q, k, v, attention_mask, **options)
        assert isinstance(out, Tensor)
        return out.unflatten(0, (query.shape[0], query.shape[2])), None
    if attention_mask is not None:  # it has the window, and what comes later, in it
        options |= {"mask": attention_mask, "causal": False, "window_size": (-1, -1)}
    out = ops.attention(query, key, value, **options)
    assert isinstance(out, Tensor)
    return out.transpose(1, 2), None


def _parts(function: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that a mask function of Transformers was put together from, each by the name of its maker."""
    yield function.__qualname__.partition(".")[0], function
    for cell in function.__closure__ or ():
        inner = cell.cell_contents
        for part in inner if isinstance(inner, tuple) else (inner,):
            if callable(part) and not isinstance(part, Tensor):
                yield from _parts(part)


def _captured(function: Any, name: str) -> Tensor:
    return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents


def _bounds(documents: Tensor) -> Tensor:
    """Numbers of documents ``[rows, tokens]`` -> where each begins in the joined rows, and the end."""
    starts = torch.ones_like(documents, dtype=torch.bool)
    starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
    first = starts.flatten().nonzero()[:, 0]
    return torch.cat([first, first.new_tensor([documents.numel()])]).int()
