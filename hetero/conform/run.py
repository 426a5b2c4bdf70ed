"""The levels in one call."""

from __future__ import annotations

from collections.abc import Iterable

from hetero.accelerator import Device
from hetero.conform.case import Case

#: Steps of a short level 4.
SHORT_STEPS = 5


def run(
    device: Device,
    level: int,
    *,
    only: bool = False,
    names: Iterable[str] | None = None,
    seed: int = 0,
    short: bool = False,
) -> list[Case]:
    """Cases of levels 1 to ``level`` on ``device``; ``only`` those of ``level`` itself.

    ``names`` are of ops, or of algorithms where ``only`` level 4 runs. What needs the trainer is imported for level 4
    alone.
    """
    levels = {level} if only else set(range(1, level + 1))
    found: list[Case] = []
    if levels & {1, 2}:
        from hetero.conform import ops

        directions = {1: "forward", 2: "backward"}
        wanted = {directions[n] for n in levels if n in directions}
        found += [case for case in ops.run(device, names, seed) if case.direction in wanted]
    if 3 in levels:
        from hetero.conform import collectives

        found += collectives.run(device, short=short, seed=seed)
    if 4 in levels:
        from hetero.conform import training

        steps = SHORT_STEPS if short else training.STEPS
        found += training.run(device, names if levels == {4} else None, steps=steps, seed=seed)
    return found
