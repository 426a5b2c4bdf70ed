"""What ran where: a count per (op, direction, implementation, dtype), and its summary at the end of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Choice:
    """A cached selection. ``calls`` is the only thing that changes on the hot path."""

    op: str
    direction: str
    impl: str
    dtype: str
    #: Why the implementations before it in the order were passed over; "" when it was the first.
    why: str
    fn: Callable[..., Any]
    calls: int = field(default=0)
    #: Chosen for an emulated device.
    emulated: bool = False


_made: list[Choice] = []


def record(choice: Choice) -> None:
    """Remember a new choice, so that its calls are counted."""
    _made.append(choice)


def reset_placement() -> None:
    """Start counting from zero (at the start of a run)."""
    for choice in _made:
        choice.calls = 0


def placement() -> list[dict[str, Any]]:
    """One row per (op, direction, implementation, dtype) that was called, with its share of the op's calls."""
    rows: dict[tuple[str, str, str, str, bool], dict[str, Any]] = {}
    totals: dict[tuple[str, str], int] = {}
    for c in _made:
        if not c.calls:
            continue
        row = rows.setdefault(
            (c.op, c.direction, c.impl, c.dtype, c.emulated),
            {
                "op": c.op,
                "direction": c.direction,
                "impl": c.impl,
                "dtype": c.dtype,
                "calls": 0,
                "why": c.why,
                "emulated": c.emulated,
            },
        )
        row["calls"] += c.calls
        totals[c.op, c.direction] = totals.get((c.op, c.direction), 0) + c.calls
    for row in rows.values():
        row["share"] = row["calls"] / totals[row["op"], row["direction"]]
    return sorted(rows.values(), key=lambda r: (r["op"], r["direction"] != "forward", -r["calls"]))


def placement_summary() -> str:
    """One line an op and direction: ``rms_norm: 92 % cpp (float32), 8 % reference (float64: …)``."""
    lines: dict[str, list[str]] = {}
    for row in placement():
        name = row["op"] if row["direction"] == "forward" else f"{row['op']} backward"
        why = f": {row['why']}" if row["impl"] == "reference" and row["why"] else ""
        where = ", emulated" if row["emulated"] else ""
        lines.setdefault(name, []).append(f"{row['share']:.0%} {row['impl']} ({row['dtype']}{where}{why})")
    if not lines:
        return "no hetero op was called"
    return "\n".join(f"{name}: {', '.join(parts)}" for name, parts in lines.items())
