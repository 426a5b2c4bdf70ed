"""The launcher that the multi-process tests stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.multiprocess import spawn


def says_where_it_is(extra: int) -> dict[str, str]:
    print("out")
    print("err", file=sys.stderr)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "COLOUR")
    return {name: os.environ[name] for name in names} | {"extra": str(extra)}


def fails_on_rank_1() -> None:
    if os.environ["RANK"] == "1":
        raise ValueError("on purpose")


def kills_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleeps_with_a_child(path: str) -> None:
    child = subprocess.Popen(["sleep", "300"])
    with open(path, "w") as file:
        file.write(str(child.pid))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(300)


@pytest.mark.parametrize("fresh", [False, True])
def test_every_rank_has_torchruns_environment(fresh: bool) -> None:
    outcomes = spawn(says_where_it_is, 3, args=[7], env={"COLOUR": "red"}, fresh=fresh)
    assert [o.result["RANK"] for o in outcomes] == ["0", "1", "2"]
    for outcome in outcomes:
        assert outcome.result["WORLD_SIZE"] == "3" and outcome.result["COLOUR"] == "red"
        assert outcome.result["MASTER_PORT"] == outcomes[0].result["MASTER_PORT"]
        assert outcome.result["extra"] == "7"
        assert (outcome.code, outcome.out, outcome.err) == (0, "out\n", "err\n")


def test_a_failure_is_shown_with_its_rank_and_traceback() -> None:
    with pytest.raises(AssertionError, match=r"(?s)rank 1: exit code 1.*ValueError: on purpose"):
        spawn(fails_on_rank_1, 2)
    assert [o.code for o in spawn(fails_on_rank_1, 2, check=False)] == [0, 1]
    assert [(o.rank, o.code) for o in spawn(kills_itself, 2, ranks=[1], check=False)] == [
        (1, -signal.SIGKILL)
    ]


def test_nothing_outlives_a_timeout(tmp_path) -> None:
    path = tmp_path / "pid"
    begin = time.monotonic()
    with pytest.raises(AssertionError, match=r"ranks \[0\] still ran"):
        spawn(sleeps_with_a_child, 1, args=[str(path)], timeout=2)
    assert time.monotonic() - begin < 20
    stat = Path("/proc", path.read_text(), "stat")
    deadline = time.monotonic() + 5
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "the child's child still runs"
        time.sleep(0.05)
