"""The emulated process that :mod:`hetero.emulators.pytest_plugin` runs tests in, seen from the user's side."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hetero.emulators.environment import environment
from hetero.errors import EmulatorError

_LAST_LINES = 40


class Process:
    """A pytest of its own over ``files``, which runs the tests it is asked for.

    Args:
        config: of the pytest that the user started.
        key: emulator, other environment variables, settings.
        files: test files to collect.

    Raises:
        EmulatorError: the emulator cannot be built, or was asked for what it does not have.
    """

    def __init__(self, config: pytest.Config, key: Sequence[Any], files: Sequence[str]) -> None:
        name, env, settings = key
        emulated = environment(name, {**os.environ, **env}, **settings)
        self._log = tempfile.NamedTemporaryFile(prefix="emulated-", suffix=".log")  # noqa: SIM115
        reading, self._to = os.pipe()
        self._from, writing = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                *_options(config),
                f"--emulated-worker={reading},{writing}",
                *files,
            ],
            env=emulated,
            pass_fds=(reading, writing),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=config.invocation_params.dir,
            start_new_session=True,
        )
        os.close(reading)
        os.close(writing)
        self._requests = os.fdopen(self._to, "w")
        self._replies = _Pipe(os.fdopen(self._from, "rb", buffering=0))

    def send(self, nodeid: str, following: str | None) -> None:
        """Have one test run there.

        Args:
            following: the test that comes next in the same process: fixtures they share are kept.

        Raises:
            EmulatorError: the process has ended.
        """
        try:
            print(json.dumps([nodeid, following]), file=self._requests, flush=True)
        except BrokenPipeError:
            raise EmulatorError(self._ended()) from None

    def reports(self, wait: float | None = None, otherwise: str = "") -> Iterator[dict[str, Any]]:
        """The reports of the test that was sent, as they come.

        Args:
            wait: seconds to wait for each; then ``otherwise`` is what went wrong.

        Raises:
            EmulatorError: the process ended, does not know the test, or said nothing in time.
        """
        while True:
            if wait is not None and not select.select([self._from], [], [], wait)[0]:
                raise EmulatorError(f"{otherwise}\n{self._tail()}")
            try:
                reply = pickle.load(self._replies)
            except (EOFError, pickle.UnpicklingError):
                raise EmulatorError(self._ended()) from None
            if "missing" in reply:
                raise EmulatorError(
                    f"the emulated process does not have this test\n{reply['missing'] or self._tail()}"
                )
            if "done" in reply:
                return
            yield reply["report"]

    def close(self) -> None:
        """Let it finish: fixtures are torn down, coverage is written."""
        self._requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self.kill()

    def kill(self) -> None:
        """End it, and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _ended(self) -> str:
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            return f"the emulated process closed its pipe and goes on\n{self._tail()}"
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"the emulated process ended with {how} during this test\n{self._tail()}"

    def _tail(self) -> str:
        lines = Path(self._log.name).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(["--- its last output", *lines[-_LAST_LINES:]])


class _Pipe:
    """Whole reads from a pipe, which gives what it has: a long report comes in parts. Nothing is read ahead, so that
    select() tells the truth.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def read(self, size: int) -> bytes:
        parts = []
        while size and (part := self._raw.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def readline(self) -> bytes:
        return self._raw.readline()


def _options(config: pytest.Config) -> list[str]:
    """Options of the user's pytest that matter there, and none that select tests."""
    found = [
        "-p",
        "hetero.emulators.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "-m",
        "",
        f"--rootdir={config.rootpath}",
    ]
    found += ["-c", str(config.inipath)] if config.inipath else []
    found += [
        f"--tb={config.option.tbstyle}",
        f"--capture={config.option.capture}",
        "--continue-on-collection-errors",
    ]
    found += ["--showlocals"] if config.option.showlocals else []
    found += ["-n0"] if config.pluginmanager.hasplugin("xdist") else []
    return found
