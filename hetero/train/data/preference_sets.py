"""Preference data as encoded examples: pairs, and single answers with a label."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hetero.errors import DataError
from hetero.train.data.collate import IGNORE
from hetero.train.data.dataset import EncodedDataset, Row, Sequences, encode_rows, finish, source_of
from hetero.train.data.encode import Encoded, Encoder
from hetero.train.data.formats import Chat
from hetero.train.data.preferences import PROMPTS, Pair, convert_judged, convert_pair
from hetero.train.data.report import EncodeReport
from hetero.train.data.template import ChatTemplate

if TYPE_CHECKING:
    from hetero.train.recipe import Recipe

Example = dict[str, Any]


class _Columns(Sequence[Example]):
    """Examples with one number for each in every column: margins, labels, log-probabilities of a reference."""

    def __init__(self, sequences: EncodedDataset, columns: dict[str, np.ndarray], length: int) -> None:
        self.sequences, self.columns, self._length = sequences, columns, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return self._example(index) | {name: values[index].item() for name, values in self.columns.items()}

    def _example(self, index: int) -> Example:
        raise NotImplementedError


class PairDataset(_Columns):
    """Pairs {"chosen": sequence, "rejected": sequence, …}; a sequence is {"input_ids", "labels"}.

    Labels are -100 on the prompt, which has the same tokens in both.
    """

    def _example(self, index: int) -> Example:
        return {"chosen": self.sequences[2 * index], "rejected": self.sequences[2 * index + 1]}


class JudgedDataset(_Columns):
    """Answers {"input_ids", "labels", "label": 0 or 1, "mismatched": sequence, …}.

    ``mismatched`` is the prompt with the answer of the example before (the first: of the last), which stands in
    for the answers that KTO's KL term is estimated on. It depends on the data alone, so that it is the same for
    every batch size, order and number of ranks.
    """

    def __init__(
        self, sequences: EncodedDataset, columns: dict[str, np.ndarray], max_length: int | None
    ) -> None:
        super().__init__(sequences, columns, len(sequences))
        self._max_length = max_length

    def _example(self, index: int) -> Example:
        own, other = self.sequences[index], self.sequences[index - 1]
        prompt, answer = (
            own["input_ids"][: _start(own["labels"])],
            other["input_ids"][_start(other["labels"]) :],
        )
        ids = (prompt + answer)[: self._max_length]
        labels = ([IGNORE] * len(prompt) + answer)[: self._max_length]
        return {**own, "mismatched": {"input_ids": ids, "labels": labels}}


def build_pairs(
    recipe: Recipe, tokenizer: Any, split: str, *, whole: bool = False
) -> tuple[PairDataset, EncodeReport]:
    """Read and encode pairs.

    The answers begin where the tokens of either first differ from the prompt's. Longer sequences lose their end
    beyond ``max_length``. With ``whole``, for rewards, a pair with one is dropped instead, and no prompt is needed.

    Raises:
        DataError: nothing there, a malformed row, or no pair left; names file, line and column.
    """
    limit, same = recipe.max_length, 0

    def keep(encoded: list[Encoded]) -> str | None:
        nonlocal same
        chosen, rejected = encoded
        if whole and limit is not None and max(len(e.input_ids) for e in encoded) > limit:
            return f"longer than max_length {limit}"
        start = min(_start(chosen.labels), _start(rejected.labels))
        for one in encoded:
            one.labels = [IGNORE] * start + one.input_ids[start:]
        same += chosen.trained > 0 and chosen.input_ids == rejected.input_ids
        return None

    data, columns, report = _build(recipe, tokenizer, split, _whole if whole else _answers, keep, whole=whole)
    if same:
        report.warnings.append(
            f"in {same} rows chosen and rejected are the same: there is no preference in them"
        )
    return PairDataset(data, columns, report.kept), report


def build_judged(recipe: Recipe, tokenizer: Any, split: str) -> tuple[JudgedDataset, EncodeReport]:
    """Read and encode answers with labels; as :func:`build_pairs`."""
    data, columns, report = _build(recipe, tokenizer, split, _judged, lambda encoded: None)
    return JudgedDataset(data, columns, recipe.max_length), report


def _answers(row: Mapping[str, Any], place: str) -> list[Row]:
    """A pair whose answers can be told from their prompt."""
    pair = convert_pair(row, place)
    if isinstance(pair.chosen, Chat) and pair.chosen.prompt_turns is None:
        raise DataError(
            f"{place}: chosen and rejected have no message in common and there is no column "
            f"{' or '.join(PROMPTS)}: what do they answer?"
        )
    return _pair(pair)


def _whole(row: Mapping[str, Any], place: str) -> list[Row]:
    return _pair(convert_pair(row, place))


def _pair(pair: Pair) -> list[Row]:
    margin = {} if pair.margin is None else {"margin": pair.margin}
    return [Row([pair.chosen, pair.rejected], margin)]


def _judged(row: Mapping[str, Any], place: str) -> list[Row]:
    return [Row([one.answer], {"label": one.label}) for one in convert_judged(row, place)]


def _build(
    recipe: Recipe,
    tokenizer: Any,
    split: str,
    convert: Callable[[Mapping[str, Any], str], list[Row]],
    keep: Callable[[list[Encoded]], str | None],
    *,
    whole: bool = False,
) -> tuple[EncodedDataset, dict[str, np.ndarray], EncodeReport]:
    source = source_of(recipe, split)
    report = EncodeReport(source.name, source.split, recipe.max_length, content_hash=source.content_hash())
    kept, columns = Sequences(), dict[str, list[float]]()
    with ChatTemplate(tokenizer, recipe.chat_template_kwargs) as template:
        encoder = Encoder(
            tokenizer,
            template,
            completion_only_loss=None if whole else True,
            max_length=None if whole else recipe.max_length,
        )
        for place, row, encoded in encode_rows(source, convert, encoder, report):
            reason = keep(encoded)
            if reason is None and not all(one.trained for one in encoded):
                limit = f" within max_length {recipe.max_length}" if any(e.truncated for e in encoded) else ""
                reason = f"an answer without a token{limit}"
            if reason is not None:
                report.drop(reason, place)
                continue
            for one in encoded:
                kept.add(one, report)
                report.truncated += one.truncated
            for name, value in row.columns.items():
                columns.setdefault(name, []).append(value)
            report.kept += 1
    finish(report, source, encoder, "; raise max_length")
    numbers = {name: np.array(values, dtype=np.float32) for name, values in columns.items()}
    return kept.dataset(), numbers, report


def _start(labels: Sequence[int]) -> int:
    """Where the answer begins: the tokens before are not trained on."""
    return next((at for at, label in enumerate(labels) if label != IGNORE), len(labels))
