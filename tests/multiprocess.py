"""Run a function in several processes as torchrun would, for tests: ``spawn(function, nproc)``.

The function must be at the top level of its file; every process imports that file anew and calls it with
``args`` (JSON). No process outlives the call: on a timeout, a failed assertion or the death of the test
itself all of them are killed, with what they started.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Outcome:
    """How one process ended. ``result``: what its function returned; ``code``: negative for a signal."""

    rank: int
    code: int
    out: str
    err: str
    result: Any
    seconds: float

    def __str__(self) -> str:
        return f"rank {self.rank}: exit code {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


def spawn(
    function: Callable[..., Any],
    nproc: int = 2,
    *,
    timeout: float = 120.0,
    args: Sequence[Any] = (),
    env: Mapping[str, str] | None = None,
    ranks: Sequence[int] | None = None,
    abandon: Sequence[int] = (),
    check: bool = True,
) -> list[Outcome]:
    """Call ``function(*args)`` in ``nproc`` processes and wait for them.

    Args:
        timeout: seconds for all of it; then every process is killed and the test fails.
        env: added to the environment of each; may override what torchrun would set.
        ranks: start only these of ``nproc``.
        abandon: ranks expected to hang (stopped ones); they are killed once all others have ended.
        check: fail the test unless every process exits with 0.

    Returns:
        An outcome for each process that was started, in rank order.
    """
    started = list(range(nproc)) if ranks is None else list(ranks)
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        work = Path(folder)
        begin = time.monotonic()
        processes = {rank: _start(function, args, work, rank, nproc, port, env or {}) for rank in started}
        for process in processes.values():
            stack.callback(_end, process)
        ends: dict[int, float] = {}
        while set(processes) - set(ends) - set(abandon) and time.monotonic() - begin < timeout:
            for rank, process in processes.items():
                if rank not in ends and process.poll() is not None:
                    ends[rank] = time.monotonic() - begin
            time.sleep(0.02)
        late = sorted(set(processes) - set(ends) - set(abandon))
        for process in processes.values():
            _end(process)
        outcomes = [_outcome(work, r, p, ends.get(r, time.monotonic() - begin)) for r, p in processes.items()]
    report = "\n".join(map(str, outcomes))
    assert not late, f"ranks {late} still ran after {timeout} s\n{report}"
    assert not check or all(outcome.code == 0 for outcome in outcomes), report
    return outcomes


def free_port() -> int:
    """A TCP port that nothing listens on at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def _start(
    function: Callable[..., Any],
    args: Sequence[Any],
    work: Path,
    rank: int,
    nproc: int,
    port: int,
    env: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(nproc),
        "LOCAL_WORLD_SIZE": str(nproc),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
        **env,
    }
    source = function.__code__.co_filename
    with open(work / f"{rank}.out", "wb") as out, open(work / f"{rank}.err", "wb") as err:
        return subprocess.Popen(
            [
                sys.executable,
                __file__,
                source,
                function.__name__,
                json.dumps(list(args)),
                str(work / f"{rank}.json"),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process with its whole group: also children that it left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _outcome(work: Path, rank: int, process: subprocess.Popen[bytes], seconds: float) -> Outcome:
    result = work / f"{rank}.json"
    return Outcome(
        rank=rank,
        code=process.returncode,
        out=(work / f"{rank}.out").read_text(errors="replace"),
        err=(work / f"{rank}.err").read_text(errors="replace"),
        result=json.loads(result.read_text()) if result.exists() else None,
        seconds=seconds,
    )


def _child(source: str, name: str, args: str, result: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # the test died: so do we
    spec = importlib.util.spec_from_file_location("spawned", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["spawned"] = module
    spec.loader.exec_module(module)
    value = getattr(module, name)(*json.loads(args))
    Path(result).write_text(json.dumps(value))


if __name__ == "__main__":
    # Python puts this folder first on the path, where `tests/multiprocess.py` would hide the PyPI package.
    sys.path.pop(0)
    _child(*sys.argv[1:])
