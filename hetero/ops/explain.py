"""``hetero.ops.explain``: which kernel a call would run, and why each other one would not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hetero.ops import registry
from hetero.ops.select import Decision, decide


@dataclass(frozen=True)
class Explanation:
    """Decisions for the passes of one call. ``str()`` it to read it, ``as_dict()`` for machines."""

    decisions: tuple[Decision, ...]

    def __str__(self) -> str:
        marks = {"chosen": "->", "rejected": " x", "not needed": "  "}
        lines = []
        for d in self.decisions:
            policy = f", policy {d.policy!r}" if d.policy else ""
            where = f"{d.device} (emulated)" if d.device.emulated else str(d.device)
            lines.append(f"{d.facts} {d.direction} on {where}: {d.impl.name}{policy}")
            width = max(len(v.impl.name) for v in d.trail)
            for v in d.trail:
                name = f"{v.impl.name:<{width}}  {v.impl.kind:<9}"
                lines.append(f"  {marks[v.verdict]} {name}  {v.verdict}: {v.reason}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The same, as plain data."""
        return {
            d.direction: {
                "call": str(d.facts),
                "device": str(d.device),
                "emulated": d.device.emulated,
                "chosen": d.impl.name,
                "policy": d.policy,
                "trail": [
                    {"impl": v.impl.name, "kind": v.impl.kind, "verdict": v.verdict, "reason": v.reason}
                    for v in d.trail
                ],
            }
            for d in self.decisions
        }


def explain(name: str, *args: Any, **kwargs: Any) -> Explanation:
    """Explain ``hetero.ops.<name>(*args, **kwargs)`` without running it.

    Raises:
        OpError: there is no such op, the arguments do not fit it, or the policy leaves nothing to choose.

    Example:
        >>> print(hetero.ops.explain("rms_norm", x, weight))
    """
    op = registry.op(name)
    facts = op.forward.facts(op.prepare(*args, **kwargs))
    return Explanation(tuple(decide(facts, p.direction) for p in op.passes()))
