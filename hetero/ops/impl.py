"""An implementation of an op: where its code is and when it applies. Data only; importing runs no kernel."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field

from hetero.ops.where import Where

#: Kinds of implementation, in the order in which they are tried when nothing else decides.
KINDS = ("vendor", "native", "triton", "reference")


@dataclass(frozen=True)
class Impl:
    """One implementation of one op.

    Args:
        op: name of a declared op.
        name: what users write in ``HETERO_OPS`` and what ``explain()`` prints (``"cpp"``, ``"triton"``).
        kind: ``"vendor"`` (the vendor's library), ``"native"`` (our compiled kernel), ``"triton"``, or
            ``"reference"`` (plain torch).
        forward, backward: ``"module:function"`` targets, imported when first chosen. They take the
            positional arguments of the op's declared schema. ``backward=None``: another implementation
            supplies the backward pass, which is sound since what forward saves is part of the declaration.
        where: conditions on the call.
        version: changes whenever the kernel's results may; conformance is recorded for it.
        vendor: backend that brings it (set by the registry); "" means any device.
    """

    op: str
    name: str
    kind: str
    forward: str
    backward: str | None = None
    where: Where = field(default_factory=Where)
    version: str = "1"
    vendor: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Impl {self.op}={self.name}: kind {self.kind!r} is not one of {KINDS}")

    def target(self, direction: str) -> str | None:
        """The ``"module:function"`` of ``direction`` (``"forward"`` or ``"backward"``)."""
        return self.forward if direction == "forward" else self.backward

    def load(self, direction: str) -> Callable[..., object]:
        """Import and return the function of ``direction``."""
        target = self.target(direction)
        if target is None:
            raise ValueError(f"Impl {self.op}={self.name} has no {direction}")
        module, _, attr = target.partition(":")
        return getattr(importlib.import_module(module), attr)
