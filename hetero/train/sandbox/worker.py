"""The process that runs programs nobody has read; :mod:`hetero.train.sandbox.pool` starts it as a script.

It speaks JSON lines: first the setting, then a job a line. Processes, outermost first: ours, which only waits; the
server, in namespaces of its own; for each job a manager, an init whose end ends all processes of the job, and the
program itself. A program is Python source and tests, which run after it in the same process; each that passes is
reported on a pipe.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

import namespaces  # type: ignore[import-not-found]  # beside this script


def serve(setting: dict[str, Any], jobs: Any, replies: Any) -> None:
    """Answer jobs until the input ends."""
    for line in jobs:
        replies.write(json.dumps(run(setting, json.loads(line))) + "\n")
        replies.flush()


def run(setting: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Run one job: {"passed": which tests, "output": its end, "code": exit code, "stopped": why or None}."""
    out, out_write = os.pipe()
    marks, marks_write = os.pipe()
    manager = os.fork()
    if manager == 0:
        _end_with(_manage, setting, job, out_write, marks_write)
    os.close(out_write)
    os.close(marks_write)
    stopped, read = _watch(setting, {out: b"", marks: b""}, out)
    deadline = time.monotonic() + (0 if stopped else setting["seconds"])
    code: int | None = None
    while code is None:
        done, status = os.waitpid(manager, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
        elif time.monotonic() >= deadline:
            stopped = stopped or "time"
            _kill(manager)
            os.waitpid(manager, 0)
            code = -signal.SIGKILL
        else:
            time.sleep(0.001)
    if not setting["isolated"]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(manager, signal.SIGKILL)  # what it left behind
    os.close(out)
    os.close(marks)
    output = read[out].decode("utf-8", "replace")[-2000:]
    return {"passed": list(dict.fromkeys(read[marks])), "output": output, "code": code, "stopped": stopped}


def _kill(manager: int) -> None:
    for kill in (os.killpg, os.kill):  # its group, and itself if it has not made one yet
        with contextlib.suppress(ProcessLookupError):
            kill(manager, signal.SIGKILL)


def _watch(setting: dict[str, Any], read: dict[int, bytes], out: int) -> tuple[str | None, dict[int, bytes]]:
    """Read the pipes until all writers are gone, time is up, or there is too much."""
    deadline, open_ends = time.monotonic() + setting["seconds"], set(read)
    while open_ends:
        ready, _, _ = select.select(open_ends, [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return "time", read
        for end in ready:
            some = os.read(end, 65536)
            read[end] += some
            if not some:
                open_ends.discard(end)
            if len(read[end]) > setting["output_bytes"]:
                read[end] = read[end][: setting["output_bytes"]]
                return "output", read
    return None, read


def _end_with(function: Any, *arguments: Any) -> None:
    """Call it in a forked process, and end that with what it returns."""
    code = 1
    try:
        code = function(*arguments)
    except BaseException as error:  # noqa: BLE001 - nothing may run on in a copy of the server
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(code & 255)


def _manage(setting: dict[str, Any], job: dict[str, Any], out: int, marks: int) -> int:
    os.setsid()
    # Standard input is nothing, output the pipe; the server's own ends are closed.
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    marks = os.dup2(marks, 3) if marks != 3 else marks
    os.closerange(4, 256)
    if not setting["isolated"]:
        return _program(setting, job, marks)
    namespaces.die_with_parent()
    namespaces.unshare(namespaces.NEWPID | namespaces.NEWNS)
    return _wait_for(_init, setting, job, marks)


def _init(setting: dict[str, Any], job: dict[str, Any], marks: int) -> int:
    namespaces.die_with_parent()
    namespaces.private_tmp(setting["limits"]["file_bytes"])
    return _wait_for(_program, setting, job, marks)


def _wait_for(function: Any, *arguments: Any) -> int:
    child = os.fork()
    if child == 0:
        _end_with(function, *arguments)
    while True:
        pid, status = os.wait()  # init also gets the orphans
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _program(setting: dict[str, Any], job: dict[str, Any], marks: int) -> int:
    if setting["isolated"]:
        namespaces.drop_privileges()
    namespaces.set_limits(setting["limits"])
    scope: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        exec(compile(job["code"], "<program>", "exec"), scope)
    except BaseException as error:  # noqa: BLE001 - also its exit: tests that did not run did not pass
        return _report(error)
    failed = 0
    for number, test in enumerate(job["tests"]):
        try:
            exec(compile(test, f"<test {number}>", "exec"), scope)
        except BaseException as error:  # noqa: BLE001 - a failed test, whatever it raises
            failed = _report(error)
        else:
            os.write(marks, bytes([number]))
    sys.stdout.flush()
    return failed


def _report(error: BaseException) -> int:
    os.write(2, f"{type(error).__name__}: {str(error)[:500]}\n".encode("utf-8", "replace"))
    return 1


def main() -> int:
    """Isolate, say whether that worked, and serve."""
    setting = json.loads(sys.stdin.readline())
    ready, ready_write = os.pipe()
    go, go_write = os.pipe()
    server = os.fork() if setting["isolated"] else 0
    if server:
        os.close(go)
        os.close(ready_write)
        if os.read(ready, 1):
            try:
                namespaces.write_maps(server)
                os.write(go_write, b"y")
            except OSError as error:
                os.write(go_write, f"n{error}".encode())
        return os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
    if setting["isolated"]:
        os.close(go_write)
        os.close(ready)
        try:
            kinds = namespaces.NEWNS | namespaces.NEWNET | namespaces.NEWIPC | namespaces.NEWUTS
            namespaces.unshare(namespaces.NEWUSER | kinds)
            os.write(ready_write, b"y")
            answer = os.read(go, 4096).decode()
            if answer != "y":
                raise OSError(f"user map: {answer[1:]}")
            namespaces.new_root(setting["root"])
            namespaces.undumpable()
            namespaces.die_with_parent()
        except (OSError, KeyError) as error:
            print(json.dumps({"refused": f"{type(error).__name__}: {error}"}), flush=True)
            os._exit(3)
    print(json.dumps({"ready": True}), flush=True)
    serve(setting, sys.stdin, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
