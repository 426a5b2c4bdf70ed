"""One progress line on stderr: a moving bar on a terminal, a few plain lines otherwise."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

#: Seconds between two plain lines.
_EVERY = 15.0


class Progress:
    """``with Progress("building x", 12) as p: p.advance()``."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self._bar: Any = None
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("hetero: {task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
            self._bar.start()
            self._bar.add_task(self.what, total=self.total)
        else:
            print(f"hetero: {self.what} ({self.total} steps) ...", file=sys.stderr, flush=True)
        return self

    def advance(self) -> None:
        """One step is done."""
        self.done += 1
        if self._bar is not None:
            self._bar.advance(0)
        elif time.monotonic() - self._said > _EVERY:
            self._said = time.monotonic()
            print(f"hetero: {self.what}: {self.done} of {self.total}", file=sys.stderr, flush=True)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        if kind is None:
            took = time.monotonic() - self._began
            print(f"hetero: {self.what}: done in {took:.0f} s", file=sys.stderr, flush=True)
