"""What an implementation may know about a call before it runs, and the conditions it sets on it.

Selection is a pure function of :class:`Facts`: whatever :class:`Where` can ask for is part of the cache
key, so a cached choice can never be wrong for a later call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from hetero.accelerator import Device


def dtype_name(dtype: torch.dtype | None) -> str:
    """``torch.bfloat16`` -> ``"bfloat16"``."""
    return "none" if dtype is None else str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Facts:
    """A call as selection sees it."""

    op: str
    device: torch.device
    #: Storage dtype of each operand the declaration names, in its order; None where it was not given.
    dtypes: tuple[torch.dtype | None, ...]
    #: Size of the last dimension of the first operand (hidden size, vocabulary, ...).
    last_dim: int
    #: Whether the first operand is contiguous.
    contiguous: bool
    #: Values of the declaration's flag arguments, by name.
    flags: Mapping[str, Any] = field(default_factory=dict)
    #: Sizes that the declaration names (``heads``), by name.
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype | None:
        """Dtype of the first operand: the one that conformance is recorded for."""
        return self.dtypes[0]

    def __str__(self) -> str:
        return f"{self.op}({dtype_name(self.dtype)}[..., {self.last_dim}])"


@dataclass(frozen=True)
class Where:
    """Conditions under which an implementation applies. A condition left out is no condition.

    Args:
        dtypes: storage dtypes that every operand must have one of.
        last_dim_le: largest size of the last dimension.
        last_dim_multiple_of: the last dimension must be a multiple of this.
        contiguous: the first operand must be contiguous.
        flags: for a flag argument, the values it may have (``{"casting": {"llama"}}``).
        sizes_le: for a size that the declaration names, the largest (``{"heads": 256}``).
        caps: device capabilities (fields of ``Device.caps``) that must be a plain "yes".
        installed: returns what the software here lacks, or None. It holds for every call alike.
        also: escape hatch; returns a reason to refuse, or None. It may look at the facts only.
    """

    dtypes: Collection[torch.dtype] | None = None
    last_dim_le: int | None = None
    last_dim_multiple_of: int | None = None
    contiguous: bool = False
    flags: Mapping[str, Collection[Any]] = field(default_factory=dict)
    sizes_le: Mapping[str, int] = field(default_factory=dict)
    caps: tuple[str, ...] = ()
    installed: Callable[[], str | None] | None = None
    also: Callable[[Facts], str | None] | None = None

    @property
    def asks_for_shapes(self) -> bool:
        """Whether the answer depends on more than dtypes and the device."""
        return bool(
            self.last_dim_le
            or self.last_dim_multiple_of
            or self.contiguous
            or self.flags
            or self.sizes_le
            or self.also
        )

    def why_not(self, facts: Facts, device: Device) -> str | None:
        """The first condition that ``facts`` breaks, as a sentence; None when all hold."""
        if self.dtypes is not None:
            for dtype in facts.dtypes:
                if dtype is not None and dtype not in self.dtypes:
                    allowed = ", ".join(sorted(dtype_name(d) for d in self.dtypes))
                    return f"{dtype_name(dtype)} not in {{{allowed}}}"
        if self.last_dim_le is not None and facts.last_dim > self.last_dim_le:
            return f"last dimension {facts.last_dim} > {self.last_dim_le}"
        if self.last_dim_multiple_of is not None and facts.last_dim % self.last_dim_multiple_of:
            return f"last dimension {facts.last_dim} is no multiple of {self.last_dim_multiple_of}"
        if self.contiguous and not facts.contiguous:
            return "first operand is not contiguous"
        for name, allowed_values in self.flags.items():
            if facts.flags[name] not in allowed_values:
                return f"{name}={facts.flags[name]!r} not in {sorted(map(repr, allowed_values))}"
        for name, most in self.sizes_le.items():
            if facts.sizes[name] > most:
                return f"{name} {facts.sizes[name]} > {most}"
        for cap in self.caps:
            value = getattr(device.caps, cap)
            if not value:
                return f"device: {cap} is {value}"
        if self.installed is not None and (lacking := self.installed()) is not None:
            return lacking
        return self.also(facts) if self.also is not None else None
