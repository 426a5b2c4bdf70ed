"""Peak rates of a chip, each with its source. An unknown peak stays unknown: no utilisation is printed."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("datasheet", "measured", "unknown")
UNITS = ("FLOP/s", "OP/s", "byte/s")


@dataclass(frozen=True)
class Peak:
    """One peak rate.

    Args:
        value: rate in ``unit``; None when unknown.
        unit: ``"FLOP/s"`` (a fused multiply-add is two), ``"OP/s"`` (integers) or ``"byte/s"``.
        kind: ``"datasheet"`` (nominal), ``"measured"``, or ``"unknown"``.
        source: where the figure was read, or how it was measured.
    """

    value: float | None = None
    unit: str = "FLOP/s"
    kind: str = "unknown"
    source: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.unit not in UNITS:
            raise ValueError(f"peak of kind {self.kind!r} in {self.unit!r}: want {KINDS} in {UNITS}")
        if (self.value is None) != (self.kind == "unknown"):
            raise ValueError(f"peak {self.value!r} cannot be of kind {self.kind!r}")
        if self.value is not None and (self.value <= 0 or not self.source):
            raise ValueError(f"peak {self.value!r} must be positive and name its source")

    def __bool__(self) -> bool:
        return self.value is not None

    def __str__(self) -> str:
        if self.value is None:
            return "unknown"
        for factor, prefix in ((1e12, "T"), (1e9, "G")):
            if self.value >= factor:
                return f"{self.value / factor:.4g} {prefix}{self.unit} ({self.kind})"
        return f"{self.value:.4g} {self.unit} ({self.kind})"
