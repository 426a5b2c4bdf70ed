"""What the quickstart found out: accuracy before and after, speed, samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hetero.quickstart import task

#: By how many points of a hundred the accuracy on held-out problems must rise, strictly and leniently judged.
PROMISED_POINTS = 50
SAMPLES = 3
NAME = "quickstart.json"


@dataclass(frozen=True)
class Score:
    """How many of ``problems`` were solved, by both judgements of :class:`~hetero.quickstart.task.Task`."""

    strict: int
    lenient: int
    problems: int

    @classmethod
    def of(cls, problems: task.Task, outputs: Sequence[str]) -> Score:
        """Judge one output for each held-out problem."""
        pairs = list(zip(outputs, problems.held_out, strict=True))
        return cls(
            sum(problems.strict(output, problem) for output, problem in pairs),
            sum(problems.lenient(output, problem) for output, problem in pairs),
            len(pairs),
        )

    def points_over(self, other: Score) -> float:
        """The smaller of the two gains over ``other``, in percentage points."""
        strict = 100 * (self.strict / self.problems - other.strict / other.problems)
        return min(strict, 100 * (self.lenient / self.problems - other.lenient / other.problems))


@dataclass(frozen=True)
class Report:
    """``quickstart.json``: all that the quickstart prints, for other programs. ``seconds`` is by phase."""

    generator: str
    train_problems: int
    device: str
    steps: int
    before: Score
    after: Score
    gained_points: float
    promised_points: int
    passed: bool
    tokens_per_second: float
    seconds: dict[str, float]
    samples: list[dict[str, str]]

    @classmethod
    def of(
        cls,
        problems: task.Task,
        before: Sequence[str],
        after: Sequence[str],
        *,
        device: str,
        steps: int,
        tokens_per_second: float,
        seconds: dict[str, float],
    ) -> Report:
        """Judge the outputs before and after training; the samples are the first held-out problems."""
        first, then = Score.of(problems, before), Score.of(problems, after)
        gained = then.points_over(first)
        return cls(
            generator=task.GENERATOR,
            train_problems=len(problems.train),
            device=device,
            steps=steps,
            before=first,
            after=then,
            gained_points=gained,
            promised_points=PROMISED_POINTS,
            passed=gained >= PROMISED_POINTS,
            tokens_per_second=tokens_per_second,
            seconds=seconds,
            samples=[
                {"question": p.question, "answer": p.answer, "before": b, "after": a}
                for p, b, a in list(zip(problems.held_out, before, after))[:SAMPLES]
            ],
        )

    def write(self, folder: Path) -> Path:
        """Write it as ``quickstart.json`` into ``folder``."""
        path = folder / NAME
        values: dict[str, Any] = asdict(self)
        path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return path
