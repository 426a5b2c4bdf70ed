"""A recipe's data as a list of encoded examples."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hetero.errors import DataError
from hetero.train.data.encode import Encoded, Encoder
from hetero.train.data.formats import Chat, Plain, SkipRow, Tokens, convert
from hetero.train.data.packing import pack
from hetero.train.data.report import EncodeReport
from hetero.train.data.sources import Source, open_source
from hetero.train.data.template import ChatTemplate

if TYPE_CHECKING:
    from hetero.train.recipe import Recipe

ROWS_AT_ONCE = 64

Example = dict[str, list[int]]


class EncodedDataset(Sequence[Example]):
    """Examples {"input_ids", "labels"}, kept as two flat int32 arrays: 8 bytes a token."""

    def __init__(self, ids: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> None:
        self.ids, self.labels, self.offsets = ids, labels, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        start, stop = self.offsets[index % len(self)], self.offsets[index % len(self) + 1]
        return {"input_ids": self.ids[start:stop].tolist(), "labels": self.labels[start:stop].tolist()}

    def lengths(self) -> list[int]:
        """Tokens of each example."""
        return np.diff(self.offsets).tolist()


class PackedDataset(Sequence[Example]):
    """Rows of several examples: {"input_ids", "labels", "seq_lengths"}. The collator keeps them apart."""

    def __init__(self, examples: EncodedDataset, rows: list[list[int]]) -> None:
        self.examples, self.rows = examples, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        parts = [self.examples[item] for item in self.rows[index]]
        return {
            "input_ids": [id for part in parts for id in part["input_ids"]],
            "labels": [label for part in parts for label in part["labels"]],
            "seq_lengths": [len(part["input_ids"]) for part in parts],
        }

    def lengths(self) -> list[int]:
        """Tokens of each row."""
        sizes = self.examples.lengths()
        return [sum(sizes[item] for item in row) for row in self.rows]


def build(
    recipe: Recipe, tokenizer: Any, split: str = "train"
) -> tuple[EncodedDataset | PackedDataset, EncodeReport]:
    """Read, convert, encode and (for training) pack the data that `recipe` names.

    Args:
        recipe: a resolved recipe.
        tokenizer: the model's, with the chat template that shall be used.
        split: "train" or "eval".

    Returns:
        The examples and a report of what happened to the rows.

    Raises:
        DataError: nothing there, a malformed row, or no example left; names file, line and field.
    """
    source = source_of(recipe, split)
    report = EncodeReport(source.name, source.split, recipe.max_length, content_hash=source.content_hash())
    examples = encode_source(source, recipe, tokenizer, report)
    if not recipe.packing or split != "train":
        return examples, report
    assert recipe.max_length is not None
    packed = PackedDataset(examples, pack(examples.lengths(), recipe.max_length))
    report.packed_rows = len(packed)
    return packed, report


def source_of(recipe: Recipe, split: str) -> Source:
    """The data that `recipe` names for "train" or "eval", not read yet."""
    if split == "train":
        return open_source(recipe.dataset_name, recipe.dataset_train_split, recipe.partial_last_line)
    if not recipe.has_eval:
        raise DataError("the recipe names no evaluation data; add eval_dataset_name or dataset_test_split")
    name = recipe.eval_dataset_name or recipe.dataset_name
    source = open_source(name, recipe.dataset_test_split or "test", recipe.partial_last_line)
    if (
        recipe.eval_dataset_name is None
        and source.files == open_source(name, recipe.dataset_train_split).files != []
    ):
        raise DataError(
            f"{name} is a file and has no splits, so dataset_test_split would evaluate on the training data; "
            "name other data with eval_dataset_name"
        )
    return source


def encode_source(source: Source, recipe: Recipe, tokenizer: Any, report: EncodeReport) -> EncodedDataset:
    """Encode every row of `source`, counting in `report`."""
    kept = Sequences()
    with ChatTemplate(tokenizer, recipe.chat_template_kwargs) as template:
        encoder = Encoder(
            tokenizer,
            template,
            completion_only_loss=recipe.completion_only_loss,
            assistant_only_loss=recipe.assistant_only_loss,
            max_length=recipe.max_length,
        )
        for place, _, (done,) in encode_rows(source, _single, encoder, report):
            if not done.trained:
                limit = f" within max_length {recipe.max_length}" if done.truncated else ""
                report.drop(f"nothing to train on{limit}", place)
                continue
            kept.add(done, report)
            report.kept += 1
            report.truncated += done.truncated
    finish(report, source, encoder, _advice(report, recipe))
    return kept.dataset()


@dataclass
class Row:
    """Examples that are encoded and kept together, and what else the row says about them."""

    examples: list[Chat | Plain | Tokens]
    columns: dict[str, float] = field(default_factory=dict)


def _single(row: Mapping[str, Any], place: str) -> list[Row]:
    return [Row([convert(row, place)])]


class Sequences:
    """Encoded examples on their way into an :class:`EncodedDataset`."""

    def __init__(self) -> None:
        self._ids, self._labels, self._offsets = array("i"), array("i"), array("q", [0])

    def add(self, done: Encoded, report: EncodeReport) -> None:
        """Take one more, and count its tokens."""
        self._ids.extend(done.input_ids)
        self._labels.extend(done.labels)
        self._offsets.append(len(self._ids))
        report.tokens += len(done.input_ids)
        report.label_tokens = (report.label_tokens or 0) + done.trained
        report.longest = max(report.longest, len(done.input_ids))

    def dataset(self) -> EncodedDataset:
        parts = (self._ids, self._labels, self._offsets)
        return EncodedDataset(*(np.frombuffer(part, dtype=part.typecode) for part in parts))


def encode_rows(
    source: Source,
    convert: Callable[[Mapping[str, Any], str], list[Row]],
    encoder: Encoder,
    report: EncodeReport,
) -> Iterator[tuple[str, Row, list[Encoded]]]:
    """Every row of `source` with its place and its examples encoded; what `convert` skips is counted in `report`."""
    rows = _converted(source, convert, report)
    while part := list(itertools.islice(rows, ROWS_AT_ONCE)):
        results = iter(encoder.encode([example for _, row in part for example in row.examples]))
        for place, row in part:
            encoded = []
            for done in itertools.islice(results, len(row.examples)):
                if isinstance(done, DataError):
                    raise DataError(f"{place}: {done}") from done
                encoded.append(done)
            yield place, row, encoded


def _converted(
    source: Source, convert: Callable[[Mapping[str, Any], str], list[Row]], report: EncodeReport
) -> Iterator[tuple[str, Row]]:
    """Rows in canonical form, all of one kind; those with nothing to learn from are counted and left out."""
    first: tuple[tuple[str, ...], str] | None = None
    for place, row in source:
        try:
            found = convert(row, place)
        except SkipRow as skip:
            report.total += 1
            report.drop(str(skip), place)
            continue
        report.total += len(found)
        for one in found:
            kind = (type(one.examples[0]).__name__, *one.columns)
            first = first or (kind, place)
            if kind != first[0]:
                kinds = f"{', '.join(kind)}) than {first[1]} ({', '.join(first[0])}"
                raise DataError(f"{place}: another kind of row ({kinds})")
            yield place, one


def finish(report: EncodeReport, source: Source, encoder: Encoder, advice: str = "") -> None:
    """Complete `report` once all rows are through.

    Raises:
        DataError: no row is left; says why, and `advice`.
    """
    report.warnings += source.skipped + _warnings(encoder)
    if not report.total:
        raise DataError(f"{source.name} has no rows" + "".join(f"; {text}" for text in source.skipped))
    if not report.kept:
        raise DataError(f"no row of {source.name} can be trained on: {report.dropped_text()}{advice}")


def _warnings(encoder: Encoder) -> list[str]:
    texts = []
    if stops := encoder.notes["no_stop"]:
        texts.append(
            f"in {stops} rows no stop token is trained on, so the model would not learn to stop: the chat "
            "template writes none after an assistant turn, or leaves it outside {% generation %}"
        )
    if merged := encoder.notes["merged"]:
        texts.append(
            f"in {merged} rows the prompt's last tokens change when the completion follows; training begins "
            "with the first that differs (put a blank at the start of the completion, not after the prompt)"
        )
    return texts


def _advice(report: EncodeReport, recipe: Recipe) -> str:
    if any("max_length" in reason for reason in report.dropped):
        return "; raise max_length"
    if recipe.assistant_only_loss:
        return "; assistant_only_loss needs messages with the role assistant"
    return ""
