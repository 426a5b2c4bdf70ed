"""A directory that appears whole or not at all, and that can tell later whether a bit of it changed.

Files are written into a hidden sibling, flushed to the disk and hashed; ``manifest.json`` is written last
and the directory renamed to its final name. So a directory at its final name is complete, a directory
without a manifest is none of ours, and safetensors (which has no checksum of its own) is covered too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from hetero.errors import CheckpointError

MANIFEST = "manifest.json"
FORMAT = 1
_HIDDEN = ".writing-"


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Flush a file, or a directory's entries, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON; NaN and infinity, which JSON has not, are a :class:`ValueError`."""
    path.write_text(json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read JSON; :class:`CheckpointError` naming the file when it cannot be read or parsed."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn failures of the file system inside the block into a :class:`CheckpointError` about ``what``."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        full = getattr(error, "errno", None) == 28 or "os error 28" in str(error).lower()
        hint = "the disk is full; free some space, or set save_total_limit" if full else str(error)
        message = f"{what} could not be written: {hint}. Nothing was left half written."
        raise CheckpointError(message) from error


@contextlib.contextmanager
def committing(final: Path, **facts: Any) -> Iterator[Path]:
    """Yield an empty directory to write into; on leaving, it becomes ``final`` with its manifest.

    ``facts`` go into the manifest. When the block or the commit fails the directory is removed, ``final``
    stays as it was, and a failure of the file system is raised as :class:`CheckpointError`.
    """
    work = final.parent / f"{_HIDDEN}{final.name}"
    with translated(str(final)):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            yield work
            _seal(work, facts)
            _swap(work, final)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise


def _files(directory: Path) -> list[Path]:
    return sorted(p for p in directory.rglob("*") if p.is_file() and p != directory / MANIFEST)


def _seal(directory: Path, facts: dict[str, Any]) -> None:
    entries = {}
    readable = directory.stat().st_mode & 0o666
    for path in _files(directory):
        # safetensors writes files that only their owner can read; give them what the umask allows.
        path.chmod(readable)
        sync(path)
        name = path.relative_to(directory).as_posix()
        entries[name] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    write_json(directory / MANIFEST, {"format": FORMAT, **facts, "files": entries})
    sync(directory / MANIFEST)
    sync(directory)


def _swap(work: Path, final: Path) -> None:
    """Rename ``work`` to ``final``; what was there before goes only after the new one is in place."""
    old = _set_aside(final) if final.exists() else None
    os.rename(work, final)
    sync(final.parent)
    if old is not None:
        shutil.rmtree(old)


def _set_aside(directory: Path) -> Path:
    """Rename ``directory`` so that it can be deleted without ever looking like a whole one."""
    hidden = directory.parent / f"{_HIDDEN}{directory.name}.old"
    shutil.rmtree(hidden, ignore_errors=True)
    os.rename(directory, hidden)
    return hidden


def remove(directory: Path) -> None:
    """Delete a committed directory; however it is interrupted, no partial one stays at its name."""
    with translated(f"the deletion of {directory}"):
        shutil.rmtree(_set_aside(directory))


def complete(directory: Path) -> bool:
    """Whether ``directory`` was committed (its content may have been damaged since: see :func:`verify`)."""
    return (directory / MANIFEST).is_file()


def verify(directory: Path) -> dict[str, Any]:
    """Compare every file with the manifest and return the manifest.

    Raises :class:`CheckpointError` that lists each missing, unexpected and changed file.
    """
    if not complete(directory):
        raise CheckpointError(f"{directory} is not a complete checkpoint: it has no {MANIFEST}")
    manifest = read_json(directory / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(f"{directory / MANIFEST} is not of format {FORMAT}, the one this version reads")
    entries: dict[str, Any] = manifest["files"]
    present = {p.relative_to(directory).as_posix() for p in _files(directory)}
    problems = [f"{name} is missing" for name in sorted(set(entries) - present)]
    problems += [f"{name} does not belong to it" for name in sorted(present - set(entries))]
    for name in sorted(present & set(entries)):
        size = (directory / name).stat().st_size
        if size != entries[name]["bytes"]:
            problems.append(f"{name} has {size} bytes instead of {entries[name]['bytes']}")
        elif sha256(directory / name) != entries[name]["sha256"]:
            problems.append(f"{name} has changed since it was written (its SHA-256 differs)")
    if problems:
        raise CheckpointError(f"{directory} is damaged: " + "; ".join(problems))
    return manifest


def remove_unfinished(parent: Path) -> None:
    """Delete what an interrupted write left in ``parent``. For the holder of the run's lock only."""
    for path in parent.glob(f"{_HIDDEN}*"):
        shutil.rmtree(path, ignore_errors=True)
