"""Reading every row as training would, going on after each problem."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from hetero.errors import DataError
from hetero.train.data.check import texts
from hetero.train.data.check.findings import Findings, Sample
from hetero.train.data.check.settings import Settings, algorithm_of
from hetero.train.data.dataset import ROWS_AT_ONCE
from hetero.train.data.encode import Encoded, Encoder
from hetero.train.data.formats import Chat, Plain, SkipRow, Tokens, convert
from hetero.train.data.preferences import convert_judged, convert_pair
from hetero.train.data.prompts import convert_prompt
from hetero.train.data.sources import Source
from hetero.train.data.template import ChatTemplate

Example = Chat | Plain | Tokens
#: A row on its way: where it is from, and its examples by name ("chosen", "rejected", ...).
Named = list[tuple[str, Example]]


def examine(source: Source, settings: Settings) -> Findings:
    """Read all of `source` and say what is there and what is wrong.

    Raises:
        DataError: the source as a whole cannot be read (no such split, not Parquet, ...).
    """
    found = Findings(source.name)
    source.on_malformed = lambda place, text: found.error(place, "not a row", text)
    similar = None
    if settings.near is not None:
        from hetero.train.data.pipeline.minhash import NearDuplicates

        similar = NearDuplicates(settings.near)
    with ChatTemplate(settings.tokenizer, settings.chat_template_kwargs) as template:
        encoder = Encoder(
            settings.tokenizer,
            template,
            completion_only_loss=settings.completion_only_loss if settings.algorithm != "grpo" else None,
            assistant_only_loss=settings.assistant_only_loss,
        )
        rows = _converted(source, settings, found, similar)
        while part := list(itertools.islice(rows, ROWS_AT_ONCE)):
            _encode(part, encoder, settings, found)
    for text in source.skipped:
        place, _, rest = text.partition(": ")
        found.warn(place, "cut-off line", rest)
    if not found.rows and not found.errors:
        found.error(source.name, "empty", "there are no rows")
    _notes(encoder, found)
    return found


def _converted(
    source: Source, settings: Settings, found: Findings, similar: Any
) -> Iterator[tuple[str, Named]]:
    seen: dict[bytes, str] = {}
    first: tuple[str, str] | None = None
    for place, row in source:
        found.rows += 1
        found.algorithm = found.algorithm or settings.algorithm or algorithm_of(row)
        layout = " + ".join(key for key, value in row.items() if value is not None) or "nothing"
        found.layouts[layout] += 1
        try:
            named = _examples(found.algorithm, row, place)
        except SkipRow as skip:
            found.warn(place, "left out", str(skip))
            continue
        except DataError as error:
            found.error(place, "wrong field", str(error).removeprefix(f"{place}: "))
            continue
        kind = type(named[0][1]).__name__
        first = first or (kind, place)
        if kind != first[0]:
            found.error(place, "mixed kinds", f"a row of kind {kind}, but {first[1]} is of kind {first[0]}")
            continue
        key = hashlib.sha256(json.dumps(row, sort_keys=True, default=str).encode()).digest()
        if key in seen:
            found.warn(place, "duplicate", f"the same as {seen[key]}")
        else:
            seen[key] = place
            if similar is not None and (other := similar.add(place, texts.of(row))):
                found.warn(place, "near duplicate", f"almost the same as {other}")
        for text in texts.complaints(row, named):
            found.warn(place, "suspicious text", text)
        yield place, named


def _examples(algorithm: str, row: Mapping[str, Any], place: str) -> Named:
    if algorithm in ("dpo", "rm"):
        pair = convert_pair(row, place)
        if pair.chosen == pair.rejected:
            raise SkipRow("chosen and rejected are the same: there is no preference in it")
        return [("chosen", pair.chosen), ("rejected", pair.rejected)]
    if algorithm == "kto":
        return [("good" if judged.label else "bad", judged.answer) for judged in convert_judged(row, place)]
    if algorithm == "grpo":
        prompt = convert_prompt(row, place)
        if not prompt.content:
            raise SkipRow("empty prompt")
        return [("prompt", prompt.chat or Plain(str(prompt.content)))]
    return [("", convert(row, place))]


def _encode(part: list[tuple[str, Named]], encoder: Encoder, settings: Settings, found: Findings) -> None:
    queue = [(place, name, example) for place, named in part for name, example in named]
    refused = ""
    while queue:
        results = encoder.encode([example for _, _, example in queue])
        for (place, name, _), done in zip(queue, results):
            if not isinstance(done, DataError):
                _count(place, name, done, settings, found)
            elif place != refused:  # once a row, not once an example
                found.error(place, "cannot be encoded", str(done))
                refused = place
        del queue[: len(results)]


def _count(place: str, name: str, done: Encoded, settings: Settings, found: Findings) -> None:
    length, limit = len(done.input_ids), settings.max_length
    found.lengths.append(length)
    if limit is not None and length > limit:
        left = sum(label != -100 for label in done.labels[1:limit])
        what = f"{length} tokens, {length - limit} beyond max_length {limit}"
        found.warn(place, "too long", what if left else f"{what}: nothing to train on is left")
    elif found.algorithm != "grpo" and not done.trained:
        found.warn(place, "nothing trained on", "no token of this row is trained on")
    if found.algorithm != "grpo":
        found.trained += sum(label != -100 for label in done.labels[1:limit])
    if len(found.samples) < settings.samples:
        found.samples.append(Sample(place, name, _pieces(done, settings.tokenizer, found.algorithm)))


def _pieces(done: Encoded, tokenizer: Any, algorithm: str) -> list[tuple[str, bool]]:
    """The tokens as text, in runs that are trained on and runs that are not."""
    marks = [algorithm != "grpo" and label != -100 for label in done.labels]
    pieces, start = [], 0
    for end in range(1, len(marks) + 1):
        if end == len(marks) or marks[end] != marks[start]:
            pieces.append(
                (tokenizer.decode(done.input_ids[start:end], skip_special_tokens=False), marks[start])
            )
            start = end
    return pieces


def _notes(encoder: Encoder, found: Findings) -> None:
    if found.algorithm == "grpo":
        return
    if stops := encoder.notes["no_stop"]:
        found.warn(
            found.name,
            "no stop token",
            f"in {stops} examples the model is not trained to stop: no end token is among what is trained on",
        )
    if merged := encoder.notes["merged"]:
        found.warn(
            found.name,
            "border",
            f"in {merged} examples the prompt's last tokens change when the answer follows",
        )
