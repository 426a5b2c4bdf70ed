"""What a run shows while it goes: a progress bar on a terminal, plain lines everywhere else."""

from __future__ import annotations

import os
import sys
from typing import Any

#: (metric, heading, format) in the order shown.
_SHOWN = (
    ("loss", "loss", ".4f"),
    ("eval_loss", "eval_loss", ".4f"),
    ("grad_norm", "grad_norm", ".3g"),
    ("learning_rate", "lr", ".3g"),
    ("tokens_per_second", "tok/s", ",.0f"),
    ("mfu", "mfu", ".1%"),
    ("memory_gib", "GiB", ".2f"),
    ("skipped_steps", "skipped", "d"),
)


def describe(row: dict[str, Any]) -> str:
    """The main numbers of a row on one line."""
    shown = [f"{head} {format(row[key], spec)}" for key, head, spec in _SHOWN if row.get(key) is not None]
    return "  ".join(shown)


class Console:
    """Prints progress to stdout. When stdout goes away (``| head``), it falls silent and training goes on."""

    every_step = False

    def __init__(self, total: int, *, start: int = 0) -> None:
        self._total = total
        self._bar: Any = None
        self._task: Any = None
        if sys.stdout.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("train"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                TextColumn("{task.description}"),
            )  # fmt: skip
            self._task = self._bar.add_task("", total=total, completed=start)
            self._bar.start()

    def write(self, row: dict[str, Any]) -> None:
        """Show one row of metrics."""
        if self._bar is not None:
            bar, text = self._bar, describe(row)
            self._guard(lambda: bar.update(self._task, completed=row["step"], description=text))
        else:
            self.say(f"step {row['step']}/{self._total}  epoch {row.get('epoch', 0):.2f}  {describe(row)}")

    def say(self, text: str) -> None:
        """Print a message, above the bar where there is one."""
        show = print if self._bar is None else self._bar.console.print
        self._guard(lambda: show(text))

    def close(self) -> None:
        """Leave the terminal in order."""
        if self._bar is not None:
            self._guard(self._bar.stop)
            self._bar = None

    def _guard(self, show: Any) -> None:
        try:
            show()
            sys.stdout.flush()
        except OSError:
            # Nobody reads any more. Point stdout elsewhere, else the interpreter fails again when it exits.
            self._bar = None
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
