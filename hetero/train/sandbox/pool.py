"""The trainer's side: a pool of workers, each replaced when it dies, hangs or has done its share of jobs."""

from __future__ import annotations

import json
import math
import queue
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hetero.errors import RolloutError

_RECYCLE_AFTER = 500  # jobs of one worker
_GRACE = 5.0  # seconds beyond a job's own, after which the worker itself is taken to be lost


@dataclass(frozen=True)
class Limits:
    """What one program may use; of memory, each of its processes."""

    seconds: float = 5.0
    memory_bytes: int = 512 << 20
    file_bytes: int = 16 << 20
    open_files: int = 64
    processes: int = 16
    output_bytes: int = 1 << 20


@dataclass(frozen=True)
class Job:
    """A program and the tests that run after it, in its names."""

    code: str
    tests: Sequence[str] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes:
        passed: numbers of the tests that passed.
        code: exit code; 0 if the program and all tests ran without an exception.
        output: the end of what it printed.
        stopped: "time", "output" or "worker" if it was killed: for too long, for printing too much, with its worker.
    """

    passed: frozenset[int] = field(default_factory=frozenset)
    code: int = 0
    output: str = ""
    stopped: str | None = None


class Pool:
    """Runs jobs on ``workers`` processes.

    Args:
        isolated: in namespaces. Without, a program can read and delete what we can; only time and memory are limited.

    Raises:
        RolloutError: at the first job, on a system that cannot isolate; it says why.
    """

    def __init__(self, workers: int = 2, limits: Limits | None = None, isolated: bool = True) -> None:
        self._limits, self._isolated = limits or Limits(), isolated
        self._free: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        for _ in range(workers):
            self._free.put(None)
        self._workers = workers

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        for _ in range(self._workers):
            worker = self._free.get()
            if worker is not None:
                worker.close()
            self._free.put(None)

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Outcomes of the jobs, in order. One that kills its worker does so for itself alone."""
        with ThreadPoolExecutor(self._workers) as threads:
            return list(threads.map(self._run, jobs))

    def _run(self, job: Job) -> Outcome:
        if len(job.tests) > 256:
            raise RolloutError(f"a program has {len(job.tests)} tests; at most 256 are run")
        worker = self._free.get()
        try:
            if worker is None:
                worker = _Worker(self._limits, self._isolated)
            outcome = worker.run(job)
            if outcome.stopped == "worker" or worker.done >= _RECYCLE_AFTER:
                worker.close()
                worker = None
            return outcome
        finally:
            self._free.put(worker)


class _Worker:
    def __init__(self, limits: Limits, isolated: bool) -> None:
        self.done, self._limits = 0, limits
        self._root = tempfile.TemporaryDirectory(prefix="hetero-sandbox-")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, str(Path(__file__).parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._root.name,
            env={},
            start_new_session=True,  # Ctrl-C is for us; the worker ends when its input does
        )
        numbers = asdict(limits) | {"cpu_seconds": math.ceil(limits.seconds)}
        setting = {
            "isolated": isolated,
            "root": self._root.name,
            "seconds": limits.seconds,
            "output_bytes": limits.output_bytes,
            "limits": {k: v for k, v in numbers.items() if k not in ("seconds", "output_bytes")},
        }
        answer = self._ask(setting, 30.0)
        if answer is None or "ready" not in answer:
            self.close()
            raise RolloutError(_refusal(answer))

    def run(self, job: Job) -> Outcome:
        self.done += 1
        answer = self._ask({"code": job.code, "tests": list(job.tests)}, 2 * self._limits.seconds + _GRACE)
        if answer is None:
            return Outcome(code=-9, stopped="worker")
        return Outcome(frozenset(answer["passed"]), answer["code"], answer["output"], answer["stopped"])

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        if not select.select([process.stdout], [], [], seconds)[0]:
            return None
        line = process.stdout.readline()
        return json.loads(line) if line else None

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._root.cleanup()


# The folder goes on the path by hand: -I keeps everything else off it.
_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv[1]); "
    "runpy.run_path(sys.argv[1] + '/worker.py', run_name='__main__')"
)


def _refusal(answer: dict[str, Any] | None) -> str:
    why = "the worker ended" if answer is None else answer.get("refused", str(answer))
    return (
        f"this system cannot isolate programs ({why}). It takes Linux 5.12 with user namespaces (sysctl "
        "user.max_user_namespaces above 0; in a container, a seccomp profile that allows unshare and mount)"
    )


@cache
def available() -> str | None:
    """None if programs can be isolated on this system, else why not."""
    try:
        with Pool(1) as pool:
            outcome = pool.run([Job("", ("pass",))])[0]
    except RolloutError as error:
        return str(error)
    return None if outcome.passed == {0} else f"a program that does nothing failed: {outcome.output}"
