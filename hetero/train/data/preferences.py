"""Rows of preference data: pairs of a better and a worse answer, and answers that are known to be good or bad."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hetero.errors import DataError
from hetero.train.data.formats import (
    Chat,
    Message,
    Plain,
    SkipRow,
    alpaca_prompt,
    convert,
    system_of,
    text_of,
    turns_of,
    with_template_columns,
)

Answer = Chat | Plain

#: What a row may have beside `chosen` and `rejected` to say what they answer; without any it is what they share.
PROMPTS = ("prompt", "conversations", "messages", "instruction")
_LABELS = ("label", "kto_tag")


@dataclass
class Pair:
    """Two answers to one prompt, and by how much the first is better (a reward model's margin)."""

    chosen: Answer
    rejected: Answer
    margin: float | None = None


@dataclass
class Judged:
    """An answer, and whether it is desirable."""

    answer: Answer
    label: bool


def convert_pair(row: Mapping[str, Any], place: str) -> Pair:
    """A row with `chosen` and `rejected`, or with `messages` and `rejected_response`.

    The two are text or messages ({role, content} or ShareGPT's {from, value}; one message need be no list). The
    prompt is told by the first of :data:`PROMPTS` that the row has. Without one, or where `prompt` is text beside
    whole conversations, the answers begin where the two differ, as in TRL.

    Raises:
        DataError: a column is missing or wrong.
        SkipRow: the prompt is implicit and the two are the same.
    """
    row = {key: value for key, value in row.items() if value is not None}
    if "rejected_response" in row and "messages" in row:
        row = _of_swift(row, place)
    for column in ("chosen", "rejected"):
        if column not in row:
            have = ", ".join(row) or "none"
            raise DataError(
                f"{place}: there is no column {column}; pairs need chosen and rejected, it has: {have}"
            )
    if isinstance(row["chosen"], str) != isinstance(row["rejected"], str):
        raise DataError(f"{place}: chosen and rejected must both be text or both be messages")
    prompt = _prompt(row, place)
    chosen, rejected = (_answer(row[column], place, column, prompt) for column in ("chosen", "rejected"))
    if prompt is None:
        prompt, chosen, rejected = _split(chosen, rejected)
    pair = Pair(_join(prompt, chosen, row, place), _join(prompt, rejected, row, place))
    if "margin" in row:
        pair.margin = _margin(row["margin"], place)
    return pair


def convert_judged(row: Mapping[str, Any], place: str) -> list[Judged]:
    """A row with an answer in any layout of SFT and `label` (or LLaMA-Factory's `kto_tag`), or a pair.

    The answer of a conversation is its last message. A pair is a desirable answer and an undesirable one.

    Raises:
        DataError: a column is missing or wrong.
        SkipRow: nothing to learn from.
    """
    row = {key: value for key, value in row.items() if value is not None}
    if "chosen" in row or "rejected_response" in row:
        pair = convert_pair(row, place)
        return [Judged(pair.chosen, True), Judged(pair.rejected, False)]
    found = [name for name in _LABELS if name in row]
    if not found:
        have = ", ".join(row) or "none"
        raise DataError(f"{place}: there is no column label (true or false); the columns are: {have}")
    label = row[found[0]]
    if label not in (True, False) or isinstance(label, float):
        raise DataError(f"{place}: {found[0]} must be true or false, it is {label!r}")
    answer = convert(row, place)
    if isinstance(answer, Chat) and answer.prompt_turns is None:
        if len(answer.messages) < 2 or answer.messages[-1]["role"] != "assistant":
            raise DataError(f"{place}: the conversation must end with what the assistant answers to it")
        answer.prompt_turns = len(answer.messages) - 1
    if not isinstance(answer, Chat) and not (isinstance(answer, Plain) and answer.prompt is not None):
        raise DataError(f"{place}: judged answers need a prompt: prompt and completion, or messages")
    return [Judged(answer, bool(label))]


def _of_swift(row: dict[str, Any], place: str) -> dict[str, Any]:
    """`messages` that end with the better answer beside `rejected_response`: as prompt, chosen, rejected."""
    messages = turns_of(row["messages"], place, "messages")
    if messages[-1]["role"] != "assistant" or len(messages) < 2:
        raise DataError(f"{place}: messages must end with the assistant's answer, beside rejected_response")
    rejected = _answer(row["rejected_response"], place, "rejected_response", messages)
    kept = {key: value for key, value in row.items() if key not in ("messages", "rejected_response")}
    return kept | {"prompt": messages[:-1], "chosen": messages[-1:], "rejected": rejected}


def _prompt(row: Mapping[str, Any], place: str) -> str | list[Message] | None:
    if "prompt" in row:
        prompt = row["prompt"]
        if not isinstance(prompt, str):
            return turns_of(prompt, place, "prompt")
        return text_of(prompt, place, "prompt") if isinstance(row["chosen"], str) else None
    for column in ("conversations", "messages"):
        if column in row:
            return system_of(row, place) + turns_of(row[column], place, column)
    return alpaca_prompt(row, place) if "instruction" in row else None


def _answer(value: Any, place: str, name: str, prompt: Any) -> str | list[Message]:
    if isinstance(value, str):
        text = text_of(value, place, name)
        return [{"role": "assistant", "content": text}] if isinstance(prompt, list) else text
    return turns_of([value] if isinstance(value, Mapping) else value, place, name)


def _split(chosen: Any, rejected: Any) -> tuple[Any, Any, Any]:
    """The beginning that both share, and the rest of each, which is never nothing."""
    if chosen == rejected:
        raise SkipRow("chosen and rejected are the same")
    last = min(len(chosen), len(rejected)) - 1
    at = next((i for i in range(last + 1) if chosen[i] != rejected[i]), max(last, 0))
    if at and chosen[at - 1] == " ":  # text: a word keeps the blank before it
        at -= 1
    return chosen[:at], chosen[at:], rejected[at:]


def _join(prompt: Any, answer: Any, row: Mapping[str, Any], place: str) -> Answer:
    if isinstance(prompt, str):
        return Plain(prompt + answer, prompt)
    return with_template_columns(Chat(prompt + answer, prompt_turns=len(prompt) or None), row, place)


def _margin(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise DataError(f"{place}: margin must be a number, it is {value!r}")
    return float(value)
