"""One case of levels 1 to 4, and what a list of them comes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One sample of one implementation.

    Args:
        op: op, collective or training algorithm.
        impl: implementation, collective library, or "trainer".
        direction: "forward" or "backward"; "ranks" for a collective, "training" for an algorithm.
        dtype, sample: of the input.
        ratio: the worst error as a fraction of what is allowed.
        problem: why it failed.
        skipped: why it was not run, such as a capability that is missing. That is not passing.
    """

    op: str
    impl: str
    direction: str
    dtype: str
    sample: str
    ratio: float = 0.0
    problem: str = ""
    skipped: str = ""

    @property
    def status(self) -> str:
        return "fail" if self.problem else "skip" if self.skipped else "pass"

    @property
    def passed(self) -> bool:
        return self.status == "pass"

    @property
    def failed(self) -> bool:
        return self.status == "fail"


Key = tuple[str, str, str, str]


def grouped(found: Iterable[Case]) -> dict[Key, list[Case]]:
    """Cases by (op, implementation, dtype, direction)."""
    groups: dict[Key, list[Case]] = {}
    for case in found:
        groups.setdefault((case.op, case.impl, case.dtype, case.direction), []).append(case)
    return groups


def verdict(group: list[Case]) -> str:
    """ "fail" if any failed, "pass" if some passed and none failed, else "skip"."""
    states = {case.status for case in group}
    return next(state for state in ("fail", "pass", "skip") if state in states)
