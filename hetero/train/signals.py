"""SIGTERM, SIGINT and SIGHUP end a run in order: the step is finished and a checkpoint is written."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """While entered, the first of the signals is only noted in :attr:`received`; the second exits at once.

    A process that was told to stop exits with 128 + the signal's number, as shells expect (130, 143).
    Signals can be handled in the main thread only; elsewhere this does nothing.
    """

    def __init__(self) -> None:
        self.received: int = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            os._exit(128 + number)
        self.received = number
