import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hetero.errors import CheckpointError
from hetero.train.checkpoint.lock import RunLock

_HOLD = """
import sys, time
from pathlib import Path
from hetero.train.checkpoint.lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_second_holder_is_refused_and_told_who(tmp_path: Path) -> None:
    refused = pytest.raises(CheckpointError, match=f"in use by another run .process {os.getpid()} on")
    with RunLock(tmp_path), refused:
        RunLock(tmp_path).__enter__()
    with RunLock(tmp_path):
        pass


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CheckpointError, match=f"process {holder.pid} on"):
            RunLock(tmp_path).__enter__()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with RunLock(tmp_path):
            pass


def test_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written to"):
        RunLock(tmp_path / "file").__enter__()


def test_full_disk_is_named_and_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched, pytest.raises(CheckpointError, match="No space left"):
        patched.setattr(os, "pwrite", full)
        RunLock(tmp_path).__enter__()
    with RunLock(tmp_path):
        pass
