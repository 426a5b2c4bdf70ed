"""Reading rows: each source kind, and what is said about broken files."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import datasets
import pytest

from hetero.errors import DataError
from hetero.train.data.sources import open_source

ROWS = [{"text": "one"}, {"text": "zwei ä"}, {"text": "三"}]


def jsonl(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def read(name, split="train", **options):
    return [row for _, row in open_source(str(name), split, **options)]


def error(name, split="train", **options) -> str:
    with pytest.raises(DataError) as caught:
        read(name, split, **options)
    return str(caught.value)


def lines(rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_jsonl_places(tmp_path):
    name = jsonl(tmp_path / "d.jsonl", "\n" + lines(ROWS).replace("\n", "\r\n"))
    assert list(open_source(name, "train")) == [(f"{name}:{i + 2}", row) for i, row in enumerate(ROWS)]


def test_byte_order_mark_is_dropped(tmp_path):
    assert read(jsonl(tmp_path / "d.jsonl", b"\xef\xbb\xbf" + lines(ROWS).encode())) == ROWS


def test_last_line_needs_no_newline(tmp_path):
    source = open_source(jsonl(tmp_path / "d.jsonl", lines(ROWS).rstrip()), "train")
    assert [row for _, row in source] == ROWS and not source.skipped


@pytest.mark.parametrize("tail", ['{"text": "cut o', '{"text": "a"', "{", '{"text": "ä'.encode()[:-1]])
def test_half_written_last_line(tmp_path, tail):
    head = lines(ROWS).encode()
    tail = tail if isinstance(tail, bytes) else tail.encode()
    source = open_source(jsonl(tmp_path / "d.jsonl", head + tail), "train")
    assert [row for _, row in source] == ROWS
    (note,) = source.skipped
    assert f"d.jsonl:4: the last line is cut off ({len(tail)} bytes at byte {len(head)}" in note
    assert "partial_last_line: skip" in error(tmp_path / "d.jsonl", partial_last_line="error")


@pytest.mark.parametrize(
    "line, part",
    [
        ('{"text": "cut o', "not valid JSON"),
        ("[1]", "must be a JSON object {...}, this one is a list"),
        ("null", "must be a JSON object"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": NaN}', "NaN is not valid JSON"),
        ('{"a": 1} {"b": 2}', "Extra data in column 10"),
        ('{"a": "x\0y"}', "not valid JSON"),
        (b'{"a": "\xff"}', "not UTF-8 text: byte 0xff in column 8"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "a whole number of thousands of digits"),
    ],
)
def test_malformed_line_is_named(tmp_path, line, part):
    line = line if isinstance(line, bytes) else line.encode()
    message = error(
        jsonl(tmp_path / "d.jsonl", lines(ROWS[:1]).encode() + line + b"\n" + lines(ROWS).encode())
    )
    assert "d.jsonl:2: " in message and part in message


def test_long_line(tmp_path, monkeypatch):
    monkeypatch.setattr("hetero.train.data.sources.MAX_LINE_BYTES", 1 << 20)
    assert ":1: the line is longer than 1 MiB" in error(jsonl(tmp_path / "d.jsonl", "x" * (1 << 21)))


def test_json_list_and_json_lines(tmp_path):
    assert read(jsonl(tmp_path / "d.json", json.dumps(ROWS, indent=1))) == ROWS
    assert read(jsonl(tmp_path / "e.json", lines(ROWS))) == ROWS
    assert "f.json:2: not valid JSON" in error(jsonl(tmp_path / "f.json", "[\n{]"))
    assert "row 1: must be an object" in error(jsonl(tmp_path / "g.json", "[3]"))


def test_parquet_writes_nothing_elsewhere(tmp_path):
    datasets.Dataset.from_list(ROWS).to_parquet(tmp_path / "d.parquet")
    cache = Path(datasets.config.HF_DATASETS_CACHE)
    before = sorted(cache.rglob("*")) if cache.exists() else []
    assert read(tmp_path / "d.parquet") == ROWS
    assert (sorted(cache.rglob("*")) if cache.exists() else []) == before
    assert "not a readable Parquet file" in error(jsonl(tmp_path / "x.parquet", b"PAR1garbage"))


def test_saved_dataset(tmp_path):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "one")
    assert read(tmp_path / "one") == ROWS
    two = datasets.DatasetDict(
        train=datasets.Dataset.from_list(ROWS), test=datasets.Dataset.from_list(ROWS[:1])
    )
    two.save_to_disk(tmp_path / "two")
    assert read(tmp_path / "two", "test") == ROWS[:1]
    assert "no split 'dev'; it has: test, train" in error(tmp_path / "two", "dev")
    (tmp_path / "one/state.json").write_text("{")
    assert "not a readable `datasets` folder" in error(tmp_path / "one")


def test_folder_of_files(tmp_path):
    (tmp_path / "data").mkdir()
    for i, row in enumerate(ROWS):
        jsonl(tmp_path / f"data/train-{i}.jsonl", lines([row]))
    jsonl(tmp_path / "data/test.jsonl", lines(ROWS[:1]))
    assert read(tmp_path) == ROWS and read(tmp_path, "test") == ROWS[:1]
    assert "neither" in error(tmp_path, "dev") and "it holds: data" in error(tmp_path, "dev")


def test_paths_that_are_no_data(tmp_path):
    assert "does not exist" in error(tmp_path / "no.jsonl")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "gone")
    assert "link to nothing" in error(tmp_path / "link.jsonl")
    assert "must end in one of" in error(jsonl(tmp_path / "d.txt", "x"))
    assert "it holds: nothing" in error((tmp_path / "d").mkdir() or tmp_path / "d")
    os.mkfifo(tmp_path / "pipe.jsonl")
    started = time.monotonic()
    assert "not a regular file" in error(tmp_path / "pipe.jsonl")
    assert time.monotonic() - started < 1


def test_unreadable_file(tmp_path, monkeypatch):
    name = jsonl(tmp_path / "d.jsonl", lines(ROWS))

    def refuse(*_):
        raise PermissionError(13, "Permission denied")  # chmod does not stop root, who runs many CI jobs

    monkeypatch.setattr("builtins.open", refuse)
    assert f"cannot read {name}: Permission denied" in error(name)


def test_content_hash_follows_the_data(tmp_path):
    name = jsonl(tmp_path / "d.jsonl", lines(ROWS))
    first = open_source(name, "train").content_hash()
    assert open_source(name, "train").content_hash() == first
    jsonl(tmp_path / "d.jsonl", lines([*ROWS, ROWS[0]]))
    assert open_source(name, "train").content_hash() != first
    a, b = (open_source(f"hetero:arithmetic?rows={n}", "train").content_hash() for n in (3, 4))
    assert a != b
