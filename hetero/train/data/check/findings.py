"""The result of a check: counts, lengths, samples, and problems with their places."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: How many problems of one kind are listed by place; all are counted.
LISTED = 20


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. An ``error`` stops training, a ``warning`` is trained on or left out."""

    level: Literal["error", "warning"]
    place: str
    kind: str
    text: str


@dataclass(frozen=True)
class Sample:
    """An example as the model sees it: pieces of text, and whether each is trained on."""

    place: str
    name: str
    pieces: list[tuple[str, bool]]


@dataclass
class Findings:
    """What :func:`~hetero.train.data.check.examine` found.

    Attributes:
        layouts: layout of rows (``prompt + chosen + rejected``, ...) -> number of rows.
        lengths: tokens of each example, in the order of the file; a pair has two.
        counts: kind of problem -> how often.
        problems: those with their places, the first :data:`LISTED` of each kind.
    """

    name: str
    algorithm: str = ""
    rows: int = 0
    layouts: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)
    trained: int = 0
    samples: list[Sample] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    errors: int = 0

    def error(self, place: str, kind: str, text: str) -> None:
        self._add(Problem("error", place, kind, text))
        self.errors += 1

    def warn(self, place: str, kind: str, text: str) -> None:
        self._add(Problem("warning", place, kind, text))

    def _add(self, problem: Problem) -> None:
        self.counts[problem.kind] += 1
        if self.counts[problem.kind] <= LISTED:
            self.problems.append(problem)

    def histogram(self, bins: int = 10) -> list[tuple[int, int, int]]:
        """(from, to, examples) of equally wide ranges of lengths, both ends included."""
        if not self.lengths:
            return []
        low, high = min(self.lengths), max(self.lengths)
        width = max(1, -(-(high - low + 1) // bins))
        counts = Counter((length - low) // width for length in self.lengths)
        last = (high - low) // width
        return [(low + i * width, low + (i + 1) * width - 1, counts[i]) for i in range(last + 1)]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        counters = {"layouts": dict(self.layouts), "counts": dict(self.counts)}
        lists = {"samples": [*map(asdict, self.samples)], "problems": [*map(asdict, self.problems)]}
        return vars(self) | counters | lists | {"histogram": self.histogram()}
