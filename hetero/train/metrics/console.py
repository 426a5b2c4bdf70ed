"""What a run shows while it goes: a progress bar on a terminal, plain lines everywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import Any

#: (metric, heading, format) in the order shown.
_SHOWN = (
    ("loss", "loss", ".4f"),
    ("eval_loss", "eval_loss", ".4f"),
    ("reward", "reward", ".3f"),
    ("eval_reward", "eval_reward", ".3f"),
    ("grad_norm", "grad_norm", ".3g"),
    ("learning_rate", "lr", ".3g"),
    ("tokens_per_second", "tok/s", ",.0f"),
    ("mfu", "mfu", ".1%"),
    ("memory_gib", "GiB", ".2f"),
    ("skipped_steps", "skipped", "d"),
)


#: Those that fit beside a bar in 80 columns.
_BESIDE_THE_BAR = ("loss", "eval_loss", "reward", "tokens_per_second")


def describe(row: dict[str, Any], keys: Collection[str] | None = None) -> str:
    """The main numbers of a row (or of those, the ones in ``keys``) on one line, as far as it has them."""
    return "  ".join(
        f"{head} {format(row[key], spec)}"
        for key, head, spec in _SHOWN
        if (keys is None or key in keys) and row.get(key) is not None
    )


class Console:
    """Prints progress to stdout. When stdout goes away (``| head``), it falls silent and training goes on."""

    def __init__(self, total: int, *, start: int = 0) -> None:
        self._total = total
        self._latest: dict[str, Any] = {}
        self._bar: Any = None
        self._task: Any = None
        if sys.stdout.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("train"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(),
                TextColumn("{task.description}"),
            )  # fmt: skip
            self._task = self._bar.add_task("", total=total, completed=start)
            self._bar.start()

    @property
    def every_step(self) -> bool:
        """A bar moves with every step; lines are for some."""
        return self._bar is not None

    def write(self, row: dict[str, Any]) -> None:
        """Show one row of metrics."""
        self._latest |= row
        if self._bar is not None:
            bar, text = self._bar, describe(self._latest, _BESIDE_THE_BAR)
            self._guard(lambda: bar.update(self._task, completed=row["step"], description=text))
        else:
            self.say(f"step {row['step']}/{self._total}  epoch {row.get('epoch', 0):.2f}  {describe(row)}")

    def say(self, text: str) -> None:
        """Print a message, above the bar where there is one."""
        if self._bar is None:
            self._guard(lambda: print(text))
        else:
            console = self._bar.console
            self._guard(lambda: console.print(text, markup=False, highlight=False))

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
