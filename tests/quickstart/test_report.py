from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetero.quickstart.report import PROMISED_POINTS, SAMPLES, Report, Score
from hetero.quickstart.task import Task


def _report(problems: Task, before: list[str], after: list[str]) -> Report:
    return Report.of(
        problems, before, after, device="cpu:0", steps=7, tokens_per_second=99.5, seconds={"train": 1.0}
    )


def test_scores(problems: Task) -> None:
    right = [p.answer for p in problems.held_out]
    outputs = [*right[:3], *(f"It is {text}" for text in right[3:5]), *("?" for _ in right[5:])]
    assert Score.of(problems, outputs) == Score(3, 5, len(right))


def test_the_gain_is_the_smaller_of_the_two() -> None:
    assert Score(80, 90, 100).points_over(Score(0, 30, 100)) == pytest.approx(60)
    assert Score(40, 90, 100).points_over(Score(0, 30, 100)) == pytest.approx(40)
    assert Score(10, 10, 100).points_over(Score(0, 30, 100)) == pytest.approx(-20)


def test_passing_takes_the_promised_margin(problems: Task) -> None:
    right = [p.answer for p in problems.held_out]
    wrong = ["?"] * len(right)
    enough = -(-len(right) * PROMISED_POINTS // 100)
    assert _report(problems, wrong, right[:enough] + wrong[enough:]).passed
    assert not _report(problems, wrong, right[: enough - 1] + wrong[enough - 1 :]).passed
    assert not _report(problems, right, right).passed


def test_the_file(problems: Task, tmp_path: Path) -> None:
    right = [p.answer for p in problems.held_out]
    report = _report(problems, ["?"] * len(right), right)
    values = json.loads(report.write(tmp_path).read_text(encoding="utf-8"))
    assert values["before"] == {"strict": 0, "lenient": 0, "problems": len(right)}
    assert values["after"]["strict"] == len(right)
    assert (values["gained_points"], values["passed"], values["steps"]) == (100, True, 7)
    first = problems.held_out[0]
    assert len(values["samples"]) == SAMPLES
    assert values["samples"][0] == {
        "question": first.question, "answer": first.answer, "before": "?", "after": first.answer
    }  # fmt: skip


def test_every_problem_needs_an_output(problems: Task) -> None:
    with pytest.raises(ValueError):
        Score.of(problems, ["?"])
