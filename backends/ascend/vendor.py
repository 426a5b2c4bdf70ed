"""What the installed torch_npu offers, asked of its schemas: versions say less, since post releases change them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch


def npu(name: str) -> Any:
    """The vendor's operator ``torch.ops.npu.<name>``; tensors go to it by position, since their names have changed."""
    return getattr(torch.ops.npu, name).default


@cache
def lacks(name: str, *arguments: str) -> str | None:
    """Why operator ``name`` with these arguments is not to be had here; None when it is."""
    packet = getattr(torch.ops.npu, name, None)
    if packet is None:
        return f"this torch_npu has no {name}"
    there = {a.name for a in packet.default._schema.arguments}
    missing = [a for a in arguments if a not in there]
    return f"{name} of this torch_npu has no argument {', '.join(missing)}" if missing else None


def has(name: str, *arguments: str) -> Callable[[], str | None]:
    """For ``Where(installed=…)``: the operator must be there, with these arguments."""
    return lambda: lacks(name, *arguments)
