"""What a kind of swap has to answer; one module of this package each."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn


class Refused(Exception):
    """A module that looks like the kind cannot be swapped; the text says why and goes into the report."""


@dataclass(frozen=True)
class Swap:
    """A swap that has been checked: the op it brings, the mixin with the new forward, and its state."""

    op: str
    mixin: type
    state: Any = None


class Kind(Protocol):
    """Recognises modules by structure and proves the swap on small random input."""

    def key(self, module: nn.Module, model: nn.Module) -> Hashable | None:
        """None when `module` is not of this kind; modules with equal keys share one check."""

    def check(self, module: nn.Module, model: nn.Module) -> Swap:
        """The swap, after comparing outputs and gradients. Raises :class:`Refused` when they disagree."""
