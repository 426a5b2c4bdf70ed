"""Where rows come from: JSONL, JSON and Parquet files, folders of them, `datasets` folders, builtins.

Every row comes with its place ("train.jsonl:17"), which later errors name. Files are read as a stream and
nothing is written anywhere: Parquet goes through pyarrow and not `Dataset.from_parquet`, which would copy
it into a cache.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetero.errors import DataError
from hetero.train.data import builtin, strict_json
from hetero.train.data.strict_json import Malformed

MAX_LINE_BYTES = 64 << 20
_BOM = b"\xef\xbb\xbf"
_SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet")


@dataclass
class Source:
    """A readable set of rows. Iterating yields (place, row) pairs and fills `skipped`.

    Attributes:
        name: what the recipe said.
        files: the files rows are read from, in order; empty for a builtin.
        split: which split.
        partial_last_line: "skip" or "error": what to do with a JSONL file that ends in the middle of a line.
        skipped: one sentence for each line that was skipped.
        on_malformed: told of every JSONL line that is no row, which is then left out; None: the first is an error.
    """

    name: str
    files: list[Path]
    split: str
    partial_last_line: str = "skip"
    skipped: list[str] = field(default_factory=list)
    saved_dataset: Path | None = None
    on_malformed: Callable[[str, str], None] | None = None

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        self.skipped.clear()
        if self.name.startswith(builtin.PREFIX):
            for number, row in enumerate(builtin.rows(self.name, self.split), 1):
                yield f"{self.name} row {number}", row
        elif self.saved_dataset is not None:
            yield from _saved_rows(self.saved_dataset)
        else:
            for file in self.files:
                if file.suffix == ".parquet":
                    yield from _parquet_rows(file)
                elif file.suffix == ".json" and _starts_with_list(file):
                    yield from _json_rows(file)
                else:
                    yield from self._line_rows(file)

    def content_hash(self) -> str:
        """SHA-256 over the bytes of every file (over the name, for a builtin): changes when the data does."""
        digest = hashlib.sha256(f"{self.name}/{self.split}".encode() if not self.files else b"")
        for file in self.files:
            with open(file, "rb") as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
        return digest.hexdigest()

    def _line_rows(self, file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
        with open(file, "rb") as stream:
            offset, number = 0, 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                place = f"{file}:{number}"
                if len(line) > MAX_LINE_BYTES:
                    raise DataError(f"{place}: the line is longer than {MAX_LINE_BYTES >> 20} MiB")
                text = line.removeprefix(_BOM) if number == 1 else line
                if text.strip():
                    try:
                        row = _parse(text, place)
                    except Malformed as error:
                        self._malformed(place, offset, line, error)
                    else:
                        yield place, row
                offset += len(line)

    def _malformed(self, place: str, offset: int, line: bytes, error: Malformed) -> None:
        if not line.endswith(b"\n"):
            self._cut_off(place, offset, len(line), error)
        elif self.on_malformed is None:
            raise DataError(str(error)) from error
        else:
            self.on_malformed(place, str(error).removeprefix(f"{place}: "))

    def _cut_off(self, place: str, offset: int, size: int, error: Exception) -> None:
        what = f"{place}: the last line is cut off ({size} bytes at byte {offset}, no line end)"
        if self.partial_last_line == "error":
            raise DataError(f"{what}; complete it, or set partial_last_line: skip") from error
        self.skipped.append(f"{what}; it was skipped")


def open_source(name: str, split: str, partial_last_line: str = "skip") -> Source:
    """Find the data that a recipe names, without reading it.

    Raises:
        DataError: absent, unreadable, of an unknown kind, or without that split; the message says what is
            there.
    """
    if name.startswith(builtin.PREFIX):
        return Source(name, [], split)
    path = Path(name)
    if not path.exists():
        raise DataError(f"{path} " + ("is a link to nothing" if path.is_symlink() else "does not exist"))
    if not path.is_dir():
        return Source(name, [_readable(path)], split, partial_last_line)
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise DataError(f"cannot read the folder {path}: {error.strerror}") from error
    names = {entry.name for entry in entries}
    if "dataset_dict.json" in names:
        if not (path / split / "state.json").is_file():
            found = ", ".join(entry.name for entry in entries if (entry / "state.json").is_file())
            raise DataError(f"{path} has no split {split!r}; it has: {found or 'none'}")
        path = path / split
        names = {entry.name for entry in path.iterdir()}
    if "state.json" in names:
        files = [_readable(file, known=False) for file in sorted(path.iterdir()) if file.is_file()]
        return Source(name, files, split, saved_dataset=path)
    files = [_readable(file) for file in _split_files(path, split)]
    if not files:
        raise DataError(
            f"{path} is neither a folder written by Dataset.save_to_disk nor does it hold {split}.jsonl or "
            f"{split}*.parquet; it holds: {', '.join(sorted(names)[:10]) or 'nothing'}"
        )
    return Source(name, files, split, partial_last_line)


def _split_files(folder: Path, split: str) -> list[Path]:
    """`train.jsonl`, `train-00000-of-00002.parquet` … in the folder or its `data` folder."""
    for place in (folder, folder / "data"):
        found = [
            file
            for file in (sorted(place.iterdir()) if place.is_dir() else [])
            if file.suffix in _SUFFIXES
            and (file.stem == split or file.stem.startswith((f"{split}-", f"{split}_")))
        ]
        if found:
            return found
    return []


def _readable(file: Path, known: bool = True) -> Path:
    try:
        mode = os.stat(file).st_mode
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    if not stat.S_ISREG(mode):  # opening a FIFO would wait for its writer for ever
        raise DataError(f"{file} is not a regular file")
    if known and file.suffix not in _SUFFIXES:
        raise DataError(f"{file}: the name must end in one of {', '.join(_SUFFIXES)}")
    try:
        with open(file, "rb"):
            return file
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error


def _parse(line: bytes, place: str) -> dict[str, Any]:
    try:
        row = strict_json.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Malformed(
            f"{place}: not UTF-8 text: byte {line[error.start]:#04x} in column {error.start + 1}"
        ) from error
    except Malformed as error:
        raise Malformed(f"{place}: {error}") from error
    if not isinstance(row, dict):
        raise Malformed(
            f"{place}: each line must be a JSON object {{...}}, this one is a {type(row).__name__}"
        )
    return row


def _starts_with_list(file: Path) -> bool:
    with open(file, "rb") as stream:
        return stream.read(4096).removeprefix(_BOM).lstrip().startswith(b"[")


def _json_rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        rows = strict_json.decode(file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: {error}") from error
    except Malformed as error:
        raise DataError(f"{file}:{error.line}: {error}" if error.line else f"{file}: {error}") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{file} row {number}: must be an object {{...}}, is a {type(row).__name__}")
        yield f"{file} row {number}", row


def _parquet_rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        number = 0
        with pq.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{file} row {number}", row
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} is not a readable Parquet file: {error}") from error


def _saved_rows(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import datasets

    try:
        table = datasets.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{folder} is not a readable `datasets` folder: {error}") from error
    for number, row in enumerate(table, 1):
        yield f"{folder} row {number}", dict(row)
