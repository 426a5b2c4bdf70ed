"""Two traces side by side: how far apart each result is, and which is the first that rounding does not explain."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import torch

from hetero.errors import ParityError
from hetero.parity.events import Event, distance, places
from hetero.parity.trace import Trace

#: Distances that differ in rounding alone spread over a few times what one draw shows.
FACTOR = 8.0


@dataclass(frozen=True)
class Difference:
    """One result on both devices.

    Args:
        a, b: of the reference and of the other device.
        drift: their :func:`~hetero.parity.events.distance`.
        allowed: the most that rounding explains.
    """

    a: Event
    b: Event
    drift: float
    allowed: float

    @property
    def parted(self) -> bool:
        return not self.drift <= self.allowed

    def why(self) -> str:
        """Shapes and both values, at the kept element where they differ most."""
        if self.a.shape != self.b.shape:
            return f"shape {list(self.a.shape)} and {list(self.b.shape)}"
        form = f"{self.a.dtype} {list(self.a.shape)}"
        if self.a.dtype != self.b.dtype:
            form = f"{self.a.dtype} and {self.b.dtype} {list(self.a.shape)}"
        if self.a.infinite != self.b.infinite:
            return f"{form}: {self.a.infinite} and {self.b.infinite} elements are infinite or NaN"
        gaps = [abs(x - y) for x, y in zip(self.a.values, self.b.values)]
        at = max(range(len(gaps)), key=lambda i: -1.0 if math.isnan(gaps[i]) else gaps[i])
        where = places(math.prod(self.a.shape))[at]
        return (
            f"{form}: element {where} is {self.a.values[at]:.8g} and {self.b.values[at]:.8g}; "
            f"norm {self.a.norm:.8g} and {self.b.norm:.8g}"
        )


@dataclass(frozen=True)
class Comparison:
    """What two traces come to.

    Args:
        a, b: the traces; ``a`` is the reference.
        differences: results that both have, in the order of ``a``.
        unmatched: ops that only one device ran, or not as often or not on the same shapes as the other, with how
            many results. A vendor's plugin may take an op apart differently. Their modules' outputs are compared.
    """

    a: Trace
    b: Trace
    differences: tuple[Difference, ...]
    unmatched: dict[tuple[int, str, str, str], tuple[int, int]]

    @property
    def parted(self) -> tuple[Difference, ...]:
        """All that is further apart than rounding explains, in the order in which it was computed."""
        return tuple(d for d in self.differences if d.parted)

    @property
    def first(self) -> Difference | None:
        """The first of :attr:`parted`."""
        return next((d for d in self.differences if d.parted), None)


def compare(a: Trace, b: Trace) -> Comparison:
    """Compare a device with the reference ``a``.

    A result may be ``FACTOR`` times as far apart as it moves on either device when each weight moves by a rounding,
    or a few roundings of its dtype, whichever is more.

    Raises:
        ParityError: the traces are of different recipes.
    """
    differ = sorted(k for k in a.recipe.keys() | b.recipe.keys() if a.recipe.get(k) != b.recipe.get(k))
    differ = [k for k in differ if k not in ("device", "ops", "output_dir")]
    if differ:
        said = ", ".join(f"{k}: {a.recipe.get(k)!r} and {b.recipe.get(k)!r}" for k in differ)
        raise ParityError(f"the traces are of different recipes ({said}): record them with the same keys")
    unmatched = _unmatched(a, b)
    others = {event.key: event for event in b.events if event.call not in unmatched}
    pairs = [(event, others[event.key]) for event in a.events if event.key in others]
    return Comparison(
        a, b, tuple(Difference(x, y, distance(x, y), _allowed(x, y)) for x, y in pairs), unmatched
    )


def _unmatched(a: Trace, b: Trace) -> dict[tuple[int, str, str, str], tuple[int, int]]:
    """Calls that are not as many on both devices, or not of the same shapes, with how many results they have."""
    shapes_a, shapes_b = _shapes(a), _shapes(b)
    found = {}
    for call in {**shapes_a, **shapes_b}:
        one, other = shapes_a.get(call, []), shapes_b.get(call, [])
        op = "." in call[3] and call[1] in ("forward", "backward")  # else a shape that differs is a finding
        if len(one) != len(other) or (op and one != other):
            found[call] = len(one), len(other)
    return found


def _shapes(trace: Trace) -> dict[tuple[int, str, str, str], list[tuple[int, ...]]]:
    found: dict[tuple[int, str, str, str], list[tuple[int, ...]]] = defaultdict(list)
    for event in trace.events:
        found[event.call].append(event.shape)
    return found


def _allowed(a: Event, b: Event) -> float:
    moved = max(a.rounding, b.rounding)
    if a.exact:
        return moved
    unit = max(torch.finfo(getattr(torch, event.dtype)).eps for event in (a, b))
    return FACTOR * max(moved, unit / 2)
