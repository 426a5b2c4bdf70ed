"""What `hetero.patch` did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class PatchReport:
    """Counts of swapped modules by op, and of modules left alone by class and reason. `str()` is a table."""

    swapped: Counter[str] = field(default_factory=Counter)
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __str__(self) -> str:
        done = ", ".join(f"{op} x{count}" for op, count in sorted(self.swapped.items()))
        lines = [f"patched: {done or 'nothing'}"]
        lines += [f"kept: {name} x{count}: {reason}" for (name, reason), count in sorted(self.kept.items())]
        return "\n".join(lines)
