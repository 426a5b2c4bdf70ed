"""Which files are checked, and what is reported for those that cannot be."""

from __future__ import annotations

import io
import stat
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hetero.errors import HeteroError
from hetero.lint.rules import Finding, check_source

#: Folders that hold other people's code or none.
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}


@dataclass
class Report:
    """Findings, and for each file that could not be checked, why."""

    findings: list[Finding] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    files: int = 0


def check(paths: Iterable[Path]) -> Report:
    """Check files, and every ``.py`` file below folders; hidden folders and environments are passed over.

    Raises:
        HeteroError: a path does not exist.
    """
    report = Report()
    for path in paths:
        if not path.exists():
            raise HeteroError(f"{path} does not exist: nothing to check")
        for file in _python_files(path):
            report.files += 1
            try:
                source = _read(file)
                report.findings += check_source(source, str(file))
            except OSError as error:
                report.errors.append(f"{file}: not checked, cannot be read: {error.strerror or error}")
            except UnicodeDecodeError as error:
                report.errors.append(f"{file}: not checked, not text: {error}")
            except (RecursionError, MemoryError):  # what Python's parser raises for thousands of brackets
                report.errors.append(f"{file}: not checked, nested too deeply")
            except (SyntaxError, ValueError) as error:  # ValueError: a null byte, on older Pythons
                line = getattr(error, "lineno", None) or 1
                report.errors.append(
                    f"{file}:{line}: not checked, not valid Python: {getattr(error, 'msg', error)}"
                )
    return report


def _python_files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for child in sorted(path.iterdir()):
        if child.is_dir():
            own = not child.name.startswith(".") and child.name not in _SKIPPED and not child.is_symlink()
            if own and not (child / "pyvenv.cfg").exists():
                yield from _python_files(child)
        elif child.suffix == ".py":
            yield child


def _read(file: Path) -> str:
    """The source, decoded as Python would (coding comment, byte-order mark)."""
    if not stat.S_ISREG(file.stat().st_mode):  # a FIFO would be waited for without end
        raise OSError("not a regular file")
    raw = file.read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    return raw.decode(encoding)
