"""The per-user folder that emulators are built into, and how things get into it whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

#: What was not used for so long is deleted after a build, in seconds.
_KEEP = 30 * 24 * 3600


def folder() -> Path:
    """``$XDG_CACHE_HOME/hetero/emulators``, by default below ``~/.cache``; made if missing."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hetero" / "emulators"
    root.mkdir(parents=True, exist_ok=True)
    return root


@contextlib.contextmanager
def locked(what: str) -> Iterator[None]:
    """Hold the lock of ``what``, between processes of this machine; says so when it has to wait."""
    with open(folder() / f".{what}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"hetero: waiting for another process that prepares {what} ...", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def publish(target: Path) -> Iterator[Path]:
    """A new folder to fill, which becomes ``target`` at the end; when anything fails nothing of it is left."""
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        made.chmod(0o755)
        yield made
        made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def touch(path: Path) -> Path:
    """Note that ``path`` is in use."""
    with contextlib.suppress(OSError):  # a cache that is read-only here is as good
        os.utime(path)
    return path


def prune(*roots: Path) -> None:
    """Delete what lies in ``roots`` and was not :func:`touch`ed for a month."""
    limit = time.time() - _KEEP
    for path in (p for root in roots if root.is_dir() for p in root.iterdir()):
        with contextlib.suppress(OSError):  # another process may delete it too
            if path.stat().st_mtime < limit and not path.name.endswith(".lock"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
