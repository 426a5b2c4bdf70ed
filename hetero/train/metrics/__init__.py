"""Where the numbers of a run go: ``metrics.jsonl``, the console, TensorBoard.

A sink that cannot write (a full disk, a closed pipe) is dropped with one warning: a log never stops training.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from hetero.errors import RecipeError
from hetero.train.metrics.jsonl import JsonlSink
from hetero.train.metrics.tensorboard import TensorBoardSink


class Sink(Protocol):
    """A receiver of rows: flat dicts with a ``step`` and numbers."""

    @property
    def every_step(self) -> bool: ...

    def write(self, row: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


_REPORTERS: dict[str, Callable[[Path], Sink]] = {"tensorboard": TensorBoardSink}


class MetricLog:
    """Hands rows to sinks: to those that want every step always, to the others each ``logging_steps``."""

    def __init__(self, sinks: Iterable[Sink], logging_steps: int) -> None:
        self._sinks = list(sinks)
        self._logging_steps = max(1, logging_steps)

    @classmethod
    def open(cls, run_dir: Path, report_to: Iterable[str], logging_steps: int, *sinks: Sink) -> MetricLog:
        """Open ``metrics.jsonl`` and the reporters named, beside ``sinks``.

        Raises :class:`RecipeError` for a reporter that does not exist or is not installed.
        """
        names = [name for name in report_to if name != "none"]
        for name in names:
            if name not in _REPORTERS:
                raise RecipeError(f"report_to: {name!r} is not known; there are: {', '.join(_REPORTERS)}")
        reporters = [_REPORTERS[name](run_dir) for name in names]
        return cls([*sinks, *reporters, JsonlSink(run_dir)], logging_steps)

    def write(self, row: dict[str, Any], *, always: bool = False) -> None:
        """Pass a row on. ``always`` shows it whatever its step (an evaluation, a skipped step)."""
        due = always or row["step"] % self._logging_steps == 0 or row["step"] == 1
        for sink in list(self._sinks):
            if due or sink.every_step:
                self._try(sink, lambda sink=sink: sink.write(row))  # type: ignore[misc]

    def close(self) -> None:
        """Close every sink."""
        for sink in self._sinks:
            self._try(sink, sink.close)
        self._sinks = []

    def _try(self, sink: Sink, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            name = type(sink).__name__
            warnings.warn(f"{name} cannot write any more and is dropped: {error}", stacklevel=3)
            self._sinks = [s for s in self._sinks if s is not sink]
