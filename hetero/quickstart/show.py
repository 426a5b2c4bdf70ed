"""What the quickstart prints."""

from __future__ import annotations

import textwrap
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hetero.quickstart import model as models
from hetero.quickstart import task
from hetero.quickstart.report import NAME, Report, Score
from hetero.train.report import CURVE

_console = Console(highlight=False)


def introduction(problems: task.Task, device: str) -> None:
    """What is going to happen."""
    _console.rule("[bold]hetero quickstart")
    _console.print(
        f"A real language model ({models.NAME}) learns a task it cannot do: reversing a list of "
        f"{task.MIN_WORDS} to {task.MAX_WORDS} words.\n"
        f"Device {device}. LoRA fine-tuning on {len(problems.train)} generated problems, judged on "
        f"{len(problems.held_out)} others whose words no problem of training has together.\n"
    )


def step(text: str) -> None:
    """One line about what is being done."""
    _console.print(f"[dim]· {escape(text)}")


def working(text: str) -> AbstractContextManager[Any]:
    """A spinner on a terminal, one line elsewhere, while something takes its time."""
    if _console.is_terminal:
        return _console.status(escape(text))
    step(text)
    return _console.status("")


def score(when: str, found: Score, *, known: bool = False) -> None:
    """Accuracy of one evaluation. ``known``: the answers are of an earlier run."""
    note = " [dim](answers kept from an earlier run)" if known else ""
    _console.print(
        f"[bold]{when}[/]: {_percent(found.strict, found)} solved, "
        f"{_percent(found.lenient, found)} when text around the answer is allowed{note}"
    )


def conclusion(report: Report, folder: Path) -> None:
    """Before and after, samples, speed, where things are."""
    score("after", report.after)
    _console.print(_samples(report))
    table = Table(title="held-out problems solved", title_justify="left")
    for heading in ("", "before", "after"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, key in (("the answer and nothing else", "strict"), ("anywhere in the answer", "lenient")):
        cells = [_percent(getattr(found, key), found) for found in (report.before, report.after)]
        table.add_row(name, *cells)
    _console.print(table)
    spent = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in report.seconds.items())
    _console.print(f"speed       {report.tokens_per_second:,.0f} tokens/s in training, {report.steps} steps")
    _console.print(f"time        {spent}")
    places = {"loss curve": folder / CURVE, "adapter": folder, "numbers": folder / NAME}
    for label, path in places.items():
        _console.print(f"{label:<11} {escape(_short(path))}", soft_wrap=True)
    _verdict(report)


def _verdict(report: Report) -> None:
    gained = f"{report.gained_points:.0f} points"
    if report.passed:
        _console.print(
            f"\n[bold green]It learned: accuracy rose by {gained}[/] (at least {report.promised_points} were "
            "promised).\nNext: change recipes/quickstart.yaml, or train on your own data with "
            "[bold]hetero train RECIPE[/]."
        )
    else:
        _console.print(
            f"\n[bold red]It learned too little: accuracy rose by {gained}[/], {report.promised_points} were "
            f"promised. {report.steps} steps may be too few if --steps was given; otherwise please report "
            f"this, with {NAME}."
        )


def _samples(report: Report) -> Table:
    title = f"the first {len(report.samples)} held-out problems"
    table = Table(title=title, title_justify="left", show_lines=True)
    for heading in ("reverse", "right answer", "before", "after"):
        table.add_column(heading)
    for sample in report.samples:
        words = sample["question"].rpartition(": ")[2]
        cells = (words, sample["answer"], sample["before"], sample["after"])
        table.add_row(*(escape(_brief(text)) for text in cells))
    return table


def _brief(text: str) -> str:
    """On one line, and not too long for a table; quickstart.json has it whole."""
    return textwrap.shorten(text, 90, placeholder=" …") or "(nothing)"


def _percent(count: int, found: Score) -> str:
    return f"{100 * count / found.problems:.0f} %"


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
