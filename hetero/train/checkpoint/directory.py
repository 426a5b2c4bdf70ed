"""The ``checkpoint-<step>`` directories of a run: which exist, which is the newest sound one, which go."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from hetero.errors import CheckpointError
from hetero.train.checkpoint import files

_NAME = re.compile(r"checkpoint-(\d+)")


def path_of(run_dir: Path, step: int) -> Path:
    """Where the checkpoint after ``step`` optimiser steps goes."""
    return run_dir / f"checkpoint-{step}"


def committed(run_dir: Path) -> list[tuple[int, Path]]:
    """(step, path) of every committed checkpoint, oldest first. Ordered by step: clocks can lie."""
    if not run_dir.is_dir():
        return []
    named = [(match, path) for path in run_dir.iterdir() if (match := _NAME.fullmatch(path.name))]
    return sorted((int(match[1]), path) for match, path in named if files.complete(path))


def newest_sound(run_dir: Path) -> Path | None:
    """The newest checkpoint whose files all verify, or None when the run has no committed checkpoint.

    A damaged newer one is passed over with a warning that says what is wrong with it. Raises
    :class:`CheckpointError` when there are checkpoints and every one of them is damaged.
    """
    damaged = []
    for _, path in reversed(committed(run_dir)):
        try:
            files.verify(path)
        except CheckpointError as error:
            damaged.append(str(error))
            continue
        for problem in damaged:
            warnings.warn(f"{problem}. Going on from {path.name} instead.", stacklevel=2)
        return path
    if damaged:
        raise CheckpointError("no checkpoint of this run is sound: " + "; ".join(damaged))
    return None


def prune(run_dir: Path, keep: int | None) -> None:
    """Delete the oldest committed checkpoints until ``keep`` are left (None keeps all)."""
    if keep is None:
        return
    for _, path in committed(run_dir)[: -max(1, keep)]:
        files.remove(path)
