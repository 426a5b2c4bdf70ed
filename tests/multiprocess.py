"""Run a function in several processes as torchrun would, for tests: ``spawn(function, nproc)``.

The function must be at the top level of its file; every process imports that file anew and calls it with
``args`` (JSON). No process outlives the call: on a timeout, a failed assertion or the death of the test
itself all of them are killed, with what they started.

Importing torch takes seconds, so the processes are forked by a nursery, a process that has done it once for
all tests. It runs nothing else, so its forks are as good as new; what must be in the environment before torch
is imported needs ``fresh=True``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    check: bool = True,
    fresh: bool = False,
) -> list[Outcome]:
    """Call ``function(*args)`` in ``nproc`` processes and wait for them.

    Args:
        timeout: seconds for all of it; then every process is killed and the test fails.
        env: added to the environment of each; may override what torchrun would set.
        ranks: start only these of ``nproc``.
        check: fail the test unless every process exits with 0.
        fresh: import torch anew, with ``env`` in place.

    Returns:
        An outcome for each process that was started, in rank order.
    """
    started = list(range(nproc)) if ranks is None else list(ranks)
    port = free_port()
    extra = dict(env or {})
    with tempfile.TemporaryDirectory() as folder, _nursery(extra if fresh else None) as nursery:
        request = {
            "folder": folder,
            "source": function.__code__.co_filename,
            "function": function.__name__,
            "args": list(args),
            "environments": {rank: _environment(rank, nproc, port) | extra for rank in started},
        }
        Path(folder, "request.json").write_text(json.dumps(request))
        begin = time.monotonic()
        nursery.stdin.write(f"{folder}\n".encode())  # type: ignore[union-attr]
        pending = {rank: Path(folder, f"{rank}.code") for rank in started}
        while any(not end.exists() for end in pending.values()) and time.monotonic() - begin < timeout:
            assert nursery.poll() is None, "the nursery died"
            time.sleep(0.01)
        late = [rank for rank, end in pending.items() if not end.exists()]
        for rank in started:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.killpg(int(Path(folder, f"{rank}.pid").read_text()), signal.SIGKILL)  # and its children
        outcomes = [_outcome(Path(folder), rank, begin) for rank in started]
    report = "\n".join(map(str, outcomes))
    assert not late, f"ranks {late} still ran after {timeout} s\n{report}"
    assert not check or all(outcome.code == 0 for outcome in outcomes), report
    return outcomes


def free_port() -> int:
    """A TCP port that nothing listens on at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def _environment(rank: int, nproc: int, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(nproc),
        "LOCAL_WORLD_SIZE": str(nproc),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _outcome(folder: Path, rank: int, begin: float) -> Outcome:
    def read(kind: str, default: str) -> str:
        path = folder / f"{rank}.{kind}"
        return path.read_text(errors="replace") if path.exists() else default

    code, _, ended = read("code", f"-{signal.SIGKILL:d} {time.monotonic()}").partition(" ")
    result = json.loads(read("json", "null"))
    return Outcome(rank, int(code), read("out", ""), read("err", ""), result, float(ended) - begin)


# -- the nursery, seen from the test
_shared: subprocess.Popen[bytes] | None = None


@contextlib.contextmanager
def _nursery(fresh: Mapping[str, str] | None) -> Iterator[subprocess.Popen[bytes]]:
    global _shared
    if fresh is not None:
        nursery = _open_nursery(fresh)
        try:
            yield nursery
        finally:
            nursery.kill()
            nursery.wait()
        return
    if _shared is None or _shared.poll() is not None:
        _shared = _open_nursery({})
    yield _shared


def _open_nursery(env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, __file__],
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        stdin=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )


# -- the nursery itself
def _main() -> None:
    _die_with_parent()
    # Python puts this folder first on the path, where `multiprocess.py` would hide a PyPI package.
    sys.path[0] = str(_ROOT)
    import hetero.comm  # noqa: F401 - what every child needs, and slow to import

    children: dict[int, tuple[Path, int]] = {}
    requests = os.fdopen(0, "rb", buffering=0, closefd=False)
    while True:
        if select.select([requests], [], [], 0.01 if children else None)[0]:
            folder = requests.readline().decode().strip()
            if not folder:
                return  # the test run is over; children die with us
            request = json.loads(Path(folder, "request.json").read_text())
            for rank, environment in request["environments"].items():
                pid = os.fork()
                if pid == 0:
                    return _child(request, rank, environment)
                Path(folder, f"{rank}.pid").write_text(str(pid))
                children[pid] = (Path(folder), int(rank))
        while children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            folder_of, rank = children.pop(pid)
            with contextlib.suppress(FileNotFoundError):  # killed after its test had given up
                end = folder_of / f"{rank}.code"
                end.with_suffix(".part").write_text(f"{os.waitstatus_to_exitcode(status)} {time.monotonic()}")
                end.with_suffix(".part").rename(end)


def _child(request: dict[str, Any], rank: str, environment: dict[str, str]) -> None:
    """Become rank ``rank``; returns into the end of the program, a usual shutdown of the interpreter."""
    _die_with_parent()
    os.setsid()
    folder = Path(request["folder"])
    for fd, (name, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), ("out", os.O_WRONLY), ("err", os.O_WRONLY)]
    ):
        path = name if fd == 0 else folder / f"{rank}.{name}"
        os.dup2(os.open(path, flags | os.O_CREAT, 0o600), fd)
    os.environ.clear()
    os.environ.update(environment)
    try:
        import torch

        torch.set_num_threads(int(environment.get("OMP_NUM_THREADS", "1")))
        spec = importlib.util.spec_from_file_location("spawned", request["source"])
        assert spec is not None and spec.loader is not None
        module = sys.modules["spawned"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        value = getattr(module, request["function"])(*request["args"])
        (folder / f"{rank}.json").write_text(json.dumps(value))
    except Exception:  # noqa: BLE001 - the end of the program, but for printing it
        traceback.print_exc()
        sys.exit(1)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    _main()
