"""One writer a run directory."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import warnings
from pathlib import Path
from types import TracebackType

from hetero.errors import CheckpointError

NAME = ".lock"


class RunLock:
    """Holds ``<run_dir>/.lock`` while a run writes there; a second run is refused.

    The kernel's advisory lock decides, so a lock left by a killed process is free at once and a process
    id that was given to another program cannot block anyone. The file's text (process id and host) is only
    for the message. Where the file system has no locks, a warning is given and the run goes on unguarded.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / NAME
        self._file: int | None = None

    def __enter__(self) -> RunLock:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise CheckpointError(f"{self._path.parent} cannot be written to: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise CheckpointError(
                f"{self._path.parent} is in use by another run ({self._holder()}). "
                "Give this run another output_dir, or end the other one first."
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
                os.close(file)
                raise
            warnings.warn(f"{self._path.parent} has no file locks: see that one run uses it", stacklevel=2)
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
        except OSError as error:
            os.close(file)
            raise CheckpointError(f"{self._path.parent} cannot be written to: {error.strerror}") from error
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            # The file stays: deleting it would let two runs hold locks on two files of one name.
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def _holder(self) -> str:
        try:
            holder = json.loads(self._path.read_text(encoding="utf-8"))
            return f"process {holder['pid']} on {holder['host']}"
        except (OSError, ValueError, KeyError):
            return "its process is not known"
