"""``metrics.jsonl``: one JSON object a step, and it survives crashes and resumes."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

NAME = "metrics.jsonl"


def read(path: Path) -> list[dict[str, Any]]:
    """Every whole line of a metrics file. A half-written last line, left by a killed run, is passed over."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def truncate_after(path: Path, step: int) -> None:
    """Drop what was logged after ``step``, so that a resumed run writes those steps once, not twice."""
    if not path.is_file():
        return
    kept = "".join(json.dumps(row) + "\n" for row in read(path) if row.get("step", 0) <= step)
    part = path.with_name(f".{path.name}.part")
    part.write_text(kept, encoding="utf-8")
    os.replace(part, path)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """``row`` as JSON can hold it: NaN and infinity become null, which every reader understands."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


class JsonlSink:
    """Appends rows to ``metrics.jsonl``; each is on its way to the disk before the next step."""

    every_step = True

    def __init__(self, run_dir: Path) -> None:
        self._file = open(run_dir / NAME, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed in close()

    def write(self, row: dict[str, Any]) -> None:
        """Append one row."""
        self._file.write(json.dumps(plain(row), allow_nan=False) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
