"""Several processes on this machine, started as torchrun would, each of which calls one function.

Also the program of such a process: ``python -m hetero.conform.ranks module:function ARGUMENTS RESULT-FILE``.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hetero.errors import HeteroError


class RanksFailed(HeteroError):
    """A rank ended without a result; the message has what it said."""


def launch(target: str, ranks: int, args: Sequence[Any], timeout: float = 600.0) -> list[Any]:
    """Call ``target`` ("module:function") with ``args`` (JSON) in ``ranks`` processes; its results by rank.

    No process outlives the call.

    Raises:
        RanksFailed: a process failed, or all of it took more than ``timeout`` seconds.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = [_start(target, args, folder, rank, ranks, port) for port in [_free_port()]
                     for rank in range(ranks)]  # fmt: skip
        late = not _wait(processes, time.monotonic() + timeout)
        said = [(folder / f"{rank}.log").read_text(errors="replace")[-2000:] for rank in range(ranks)]
        for rank, process in enumerate(processes):
            if process.returncode != 0:
                ended = f"still ran after {timeout:g} s" if late else f"ended with code {process.returncode}"
                raise RanksFailed(f"rank {rank} of {ranks} {ended}:\n{said[rank]}")
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def _start(
    target: str, args: Sequence[Any], folder: Path, rank: int, ranks: int, port: int
) -> subprocess.Popen[bytes]:
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    env = {**os.environ, **{k: str(v) for k, v in place.items()}}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    env.setdefault("OMP_NUM_THREADS", "1")
    command = [
        sys.executable,
        "-m",
        __spec__.name,
        target,
        json.dumps(list(args)),
        str(folder / f"{rank}.json"),
    ]
    with (folder / f"{rank}.log").open("wb") as log:
        return subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)


def _wait(processes: list[subprocess.Popen[bytes]], deadline: float) -> bool:
    """Whether all ended by themselves. When one fails the others have ten seconds to say so too."""
    try:
        while any(p.poll() is None for p in processes):
            if time.monotonic() > deadline:
                return False
            if any(p.returncode for p in processes):
                deadline = min(deadline, time.monotonic() + 10)
            time.sleep(0.02)
        return True
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def _main() -> None:
    target, args, result = sys.argv[1:]
    module, _, function = target.partition(":")
    value = getattr(importlib.import_module(module), function)(*json.loads(args))
    Path(result).write_text(json.dumps(value))


if __name__ == "__main__":
    _main()
