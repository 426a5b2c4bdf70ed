"""What a hostile program can do to us, which is nothing, and to the jobs beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hetero.errors import RolloutError
from hetero.train.sandbox import Job, Limits, Outcome, Pool, available, pool

LIMITS = Limits(seconds=1.5, memory_bytes=128 << 20, file_bytes=1 << 20, output_bytes=1 << 16)
GOOD = Job(
    "def twice(x):\n    return 2 * x", ("assert twice(2) == 4", "assert twice(2) == 5", "import heapq, re")
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Pool]:
    if why := available():
        pytest.skip(why)
    with Pool(1, LIMITS) as one:
        yield one


def run(sandbox: Pool, code: str, *tests: str) -> Outcome:
    """The outcome of `code`, after which the worker still serves the next job."""
    outcome, after = sandbox.run([Job(code, tests), GOOD])
    assert after.passed == {0, 2}
    return outcome


def test_tests_run_in_the_names_of_the_program(sandbox: Pool) -> None:
    outcome = sandbox.run([GOOD])[0]
    assert outcome.passed == {0, 2} and outcome.code == 1 and "AssertionError" in outcome.output


@pytest.mark.parametrize("end", ["raise ValueError('no')", "import os; os._exit(0)", "exit(0)", "def f(:"])
def test_a_program_that_ends_early_passes_nothing(sandbox: Pool, end: str) -> None:
    assert run(sandbox, end, "pass").passed == frozenset()


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import os\nos.fork() or os.setsid()\nwhile True: pass",
        "import os\nos.closerange(0, 99)\nwhile True: pass",
        "import signal as s\nfor n in {*s.valid_signals()} - {9, 19}: s.signal(n, s.SIG_IGN)\nwhile True: pass",
    ],
)
def test_endless_programs_are_killed(sandbox: Pool, code: str) -> None:
    start = time.monotonic()
    outcome = run(sandbox, code)
    assert outcome.code != 0 and time.monotonic() - start < 10


def test_fork_bomb(sandbox: Pool) -> None:
    code = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    assert run(sandbox, code).stopped == "time"


def test_memory_hog(sandbox: Pool) -> None:
    outcome = run(sandbox, "x = []\nwhile True: x.append(bytearray(1 << 20))")
    assert outcome.code != 0 and "MemoryError" in outcome.output


def test_output_flood(sandbox: Pool) -> None:
    outcome = run(sandbox, "while True: print('x' * 4096)")
    assert outcome.stopped == "output" and len(outcome.output) <= 2000


def test_no_network(sandbox: Pool) -> None:
    code = "import socket\ns = socket.socket()\ns.settimeout(1)\ns.connect(('{}', 53))"
    for address in ("127.0.0.1", "1.1.1.1"):
        assert "OSError" in run(sandbox, code.format(address)).output


def test_files(sandbox: Pool, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    for path in (secret, "/etc/passwd", "/proc/1/environ", "/proc/self/status", f"/proc/{os.getpid()}/mem"):
        assert "FileNotFoundError" in run(sandbox, f"open({str(path)!r}).read()").output
    for path in ("/new", "/usr/lib/new", "/dev/new"):
        outcome = run(sandbox, f"open({path!r}, 'w')")
        assert outcome.code != 0 and ("Read-only" in outcome.output or "Permission" in outcome.output)
    assert run(sandbox, "open('here', 'w').write('y')", "assert open('/tmp/here').read() == 'y'").passed == {
        0
    }
    assert run(sandbox, "import os", "assert os.listdir('/tmp') == []").passed == {
        0
    }  # nothing is left for the next
    assert run(sandbox, "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 16))").code != 0


def test_environment_and_other_processes(sandbox: Pool) -> None:
    code = """
import os
print(dict(os.environ), flush=True)
for pid in (os.getppid(), 1, -1):
    try: os.kill(pid, 9)
    except OSError: pass
"""
    os.environ["HETERO_TEST_SECRET"] = "hunter2"
    try:
        outcome = run(sandbox, code)
    finally:
        del os.environ["HETERO_TEST_SECRET"]
    assert "hunter2" not in outcome.output


@pytest.mark.parametrize(
    "call",
    [
        "libc.unshare(0x10000000)",  # a namespace in which it is root again
        "libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
        "libc.umount2(b'/', 2)",
        "libc.chroot(b'/tmp')",
        "libc.setuid(0) if os.getuid() else -1",
        "libc.ptrace(16, 1, 0, 0)",  # attach to init
        "libc.sethostname(b'x', 1)",
    ],
)
def test_no_privileges(sandbox: Pool, call: str) -> None:
    test = f"assert {call} < 0"
    assert run(sandbox, "import ctypes, os\nlibc = ctypes.CDLL(None)", test).passed == {0}


def test_one_job_cannot_write_on_the_answers_of_another(sandbox: Pool) -> None:
    code = "import os\nfor fd in range(3, 64):\n  try: os.write(fd, b'{\"passed\": [0]}\\n')\n  except OSError: pass"
    outcome = run(sandbox, code + "\nraise SystemExit(1)")
    assert outcome.code == 1 or outcome.stopped


def test_no_process_is_left(sandbox: Pool) -> None:
    before = _workers()
    with Pool(2, LIMITS) as many:
        found = many.run([Job("import os, time\nos.fork()\nos.setsid()\ntime.sleep(60)"), GOOD, GOOD])
        assert _workers() - before
    assert [o.passed for o in found] == [frozenset(), {0, 2}, {0, 2}]
    deadline = time.monotonic() + 5
    while left := _workers() - before:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _workers() -> set[str]:
    """Processes of sandboxes: programs keep the command line of the worker that they are a fork of."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"/worker.py'" in line and b"sandbox" in line:
            found.add(pid)
    return found


def test_a_worker_that_is_killed_fails_its_own_job_alone(sandbox: Pool) -> None:
    with Pool(1, LIMITS) as one:
        one.run([GOOD])
        worker = one._free.get()
        assert worker is not None
        worker._process.kill()
        worker._process.wait()
        one._free.put(worker)
        lost, fine = one.run([GOOD, GOOD])
    assert lost.stopped == "worker" and fine.passed == {0, 2}


def test_workers_are_recycled(sandbox: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_RECYCLE_AFTER", 1)
    with Pool(1, LIMITS) as one:
        one.run([GOOD])
        assert one._free.get() is None
        one._free.put(None)


def test_refused_where_namespaces_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(self: object, request: dict[str, object], seconds: float) -> dict[str, str]:
        return {"refused": "PermissionError: unshare"}

    monkeypatch.setattr(pool._Worker, "_ask", ask)
    with pytest.raises(
        RolloutError, match=r"cannot isolate programs \(PermissionError: unshare\).*Linux 5.12"
    ):
        Pool(1).run([GOOD])


def test_without_isolation_limits_hold() -> None:
    with Pool(1, LIMITS, isolated=False) as one:
        endless, good = one.run([Job("while True: pass"), GOOD])
    assert endless.code != 0 and good.passed == {0, 2}


def test_the_root_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Pool(1, LIMITS, isolated=available() is None) as one:
        one.run([GOOD])
    assert not list(tmp_path.iterdir())
