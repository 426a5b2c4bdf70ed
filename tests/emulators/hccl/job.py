"""Runs a function of a file in several processes, one a rank, with the emulated libraries and without torch.

As a program: ``job.py SOURCE FUNCTION FOLDER RANK SIZE ARGUMENTS``; the function gets ``(folder, rank, size,
*arguments)`` and its result goes to a file as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Outcome:
    """``result``: what the function returned, or None; ``code``: as Popen's; ``seconds``: from the start of all."""

    rank: int
    code: int
    result: Any
    out: str
    seconds: float


def run(
    function: Callable[..., Any],
    size: int,
    libraries: Path,
    *,
    args: Sequence[Any] = (),
    env: Mapping[str, str] | None = None,
    each: Callable[[int], Mapping[str, str]] = lambda rank: {},
    timeout: float = 60.0,
    check: bool = True,
) -> list[Outcome]:
    """Call ``function`` in ``size`` processes; all are killed after ``timeout`` seconds.

    Args:
        each: more environment for a rank.
        check: raise unless every process exits with 0.
    """
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = []
        for rank in range(size):
            environment = {
                **{k: v for k, v in os.environ.items() if not k.startswith(("HETERO_CANN_", "HCCL_"))},
                "LD_LIBRARY_PATH": str(libraries),
                "HETERO_CANN_DEVICES": "8",
                **(env or {}),
                **each(rank),
            }
            command = [sys.executable, __file__, function.__code__.co_filename, function.__name__, name]
            command += [str(rank), str(size), json.dumps(list(args))]
            out = (folder / f"{rank}.out").open("w")
            started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
        ended: dict[int, float] = {}
        while len(ended) < size and time.monotonic() - begin < timeout:
            for rank, process in enumerate(started):
                if rank not in ended and process.poll() is not None:
                    ended[rank] = time.monotonic() - begin
            time.sleep(0.005)
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        outcomes = []
        for rank, process in enumerate(started):
            file = folder / f"{rank}.json"
            result = json.loads(file.read_text()) if file.exists() else None
            text = (folder / f"{rank}.out").read_text()
            outcomes.append(Outcome(rank, process.returncode, result, text, ended.get(rank, timeout)))
    report = "\n".join(f"rank {o.rank}: code {o.code} after {o.seconds:.1f} s\n{o.out}" for o in outcomes)
    assert len(ended) == size, f"ran longer than {timeout} s\n{report}"
    assert not check or all(o.code == 0 for o in outcomes), report
    return outcomes


def _main() -> None:
    import importlib.util

    source, function, folder, rank, size, arguments = sys.argv[1:]
    sys.path[0] = str(_ROOT)
    spec = importlib.util.spec_from_file_location("job_checks", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = getattr(module, function)(Path(folder), int(rank), int(size), *json.loads(arguments))
    Path(folder, f"{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    _main()
