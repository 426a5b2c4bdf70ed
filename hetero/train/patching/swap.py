"""How one module of a model is given another forward: its class is exchanged for a subclass.

The module object stays: its parameters, hooks, children and place in the tree are untouched, so checkpoints
keep their names and PEFT, DDP, FSDP and gradient checkpointing see what they saw before. Undoing it is
exchanging the class back.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from hetero.errors import ModelError


class Swapped:
    """Base of the mixins that bring the new forward. `self.hetero` holds what it needs to know."""

    mixin: ClassVar[type]
    original: ClassVar[type]
    hetero: Any

    def _get_name(self) -> str:
        return f"{self.original.__name__}[hetero]"

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A class made on the fly has no name that a pickle could refer to: it is made again from its parts.
        reduced: Any = super().__reduce_ex__(protocol)
        return (_blank, (self.mixin, self.original), *reduced[2:])


@functools.cache
def swapped_class(mixin: Any, original: Any) -> Any:
    """The subclass of `original` with `mixin`'s forward, under the original's name.

    The name stays because others look layers up by it, for example FSDP wrapping policies.
    """
    body = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "mixin": mixin,
        "original": original,
    }
    return type(original.__name__, (mixin, original), body)


def _blank(mixin: Any, original: Any) -> Any:
    cls = swapped_class(mixin, original)
    return cls.__new__(cls)


def swap(module: nn.Module, mixin: type, state: Any) -> None:
    """Give `module` the forward of `mixin`, with `state` as its `hetero`."""
    original: Any = type(module)
    module.__class__ = swapped_class(mixin, original)
    module.hetero = state


def restore(module: nn.Module) -> None:
    """Give a swapped `module` its own class back; other modules are left alone.

    Raises:
        ModelError: something (FSDP, for one) has put a class of its own on top since.
    """
    if not isinstance(module, Swapped):
        return
    if "original" not in vars(type(module)):
        raise ModelError(
            f"cannot unpatch {type(module).__name__}: it has been wrapped since; unpatch before wrapping"
        )
    module.__class__ = type(module).original
    del module.hetero


def stand_in(module: nn.Module, children: Mapping[str, nn.Module | None]) -> Any:
    """A shallow copy of `module` with other children, to try a forward on without touching the model."""
    clone = copy.copy(module)
    clone.__dict__["_modules"] = {**module._modules, **children}
    return clone
