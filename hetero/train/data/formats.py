"""Row layouts that people have, converted to three canonical forms; errors name place and field."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hetero.errors import DataError
from hetero.train.data import strict_json

Message = dict[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool")
_SHAREGPT_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
    "observation": "tool",
    "tool": "tool",
    "function_call": "assistant",
}


@dataclass
class Chat:
    """A conversation. With `prompt_turns` p the first p messages are a prompt and the rest its completion."""

    messages: list[Message]
    prompt_turns: int | None = None
    tools: list[Any] | None = None
    template_kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Plain:
    """Text without a conversation; `prompt` is None when there is no prompt to tell from the rest."""

    text: str
    prompt: str | None = None


@dataclass
class Tokens:
    """Token ids made elsewhere; `labels` are unshifted, -100 where not trained on; None: all are."""

    input_ids: list[int]
    labels: list[int] | None


class SkipRow(Exception):
    """The row is well formed but holds nothing to learn from; the message says why."""


def convert(row: Mapping[str, Any], place: str) -> Chat | Plain | Tokens:
    """One row in canonical form. The layout is told by its columns.

    Raises:
        DataError: no known layout, or a field is wrong.
        SkipRow: the completion is empty.
    """
    row = {key: value for key, value in row.items() if value is not None}
    layout = detect(row, place)
    example = _CONVERTERS[layout](row, place)
    return with_template_columns(example, row, place) if isinstance(example, Chat) else example


def with_template_columns(chat: Chat, row: Mapping[str, Any], place: str) -> Chat:
    """`chat` with what the row's columns `tools` and `chat_template_kwargs` say."""
    chat.tools = _tools(row, place)
    chat.template_kwargs = _mapping(row.get("chat_template_kwargs", {}), place, "chat_template_kwargs")
    return chat


def detect(row: Mapping[str, Any], place: str) -> str:
    """The layout of a row: a key of `LAYOUTS`."""
    for layout, columns in LAYOUTS.items():
        if all(column in row for column in columns):
            return layout
    if "chosen" in row and "rejected" in row:
        raise DataError(
            f"{place}: columns chosen and rejected are preference data: use algorithm dpo, kto or rm; SFT needs "
            "one answer a row"
        )
    known = sorted({column for columns in LAYOUTS.values() for column in columns})
    near = [
        f"{c} (did you mean {m[0]}?)" if (m := difflib.get_close_matches(c, known, 1)) else c for c in row
    ]
    forms = "; ".join(" + ".join(columns) for columns in LAYOUTS.values())
    raise DataError(
        f"{place}: no known layout: the columns are {', '.join(near) or 'none'}; known are: {forms}"
    )


LAYOUTS: dict[str, tuple[str, ...]] = {
    "messages": ("messages",),
    "conversations": ("conversations",),
    "prompt-completion": ("prompt", "completion"),
    "alpaca": ("instruction", "output"),
    "tokens": ("input_ids",),
    "text": ("text",),
}


def _messages(row: Mapping[str, Any], place: str) -> Chat:
    return Chat(_conversation(row["messages"], place, "messages"))


def _sharegpt(row: Mapping[str, Any], place: str) -> Chat:
    return Chat(system_of(row, place) + turns_of(row["conversations"], place, "conversations"))


def system_of(row: Mapping[str, Any], place: str) -> list[Message]:
    """The system message of a row that has it as a column, or none."""
    if not row.get("system"):
        return []
    return [{"role": "system", "content": text_of(row["system"], place, "system")}]


def turns_of(value: Any, place: str, name: str) -> list[Message]:
    """Messages from a list of {role, content} or of ShareGPT's {from, value}."""
    turns = _nonempty_list(value, place, name)
    if isinstance(turns[0], Mapping) and "role" in turns[0]:
        return _conversation(turns, place, name)
    messages: list[Message] = []
    for number, turn in enumerate(turns):
        where = f"{name}[{number}]"
        if not isinstance(turn, Mapping) or "from" not in turn or "value" not in turn:
            raise DataError(f"{place}: {where} needs the keys from and value, it is {_short(turn)}")
        speaker, said = turn["from"], text_of(turn["value"], place, f"{where}.value")
        if not isinstance(speaker, str) or speaker not in _SHAREGPT_ROLES:
            raise DataError(f"{place}: {where}.from is {speaker!r}; known are {', '.join(_SHAREGPT_ROLES)}")
        if speaker == "function_call":
            call = _json(said, place, f"{where}.value")
            calls = [
                {"type": "function", "function": item}
                for item in (call if isinstance(call, list) else [call])
            ]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        else:
            messages.append({"role": _SHAREGPT_ROLES[speaker], "content": said})
    return messages


def _prompt_completion(row: Mapping[str, Any], place: str) -> Chat | Plain:
    prompt, completion = row["prompt"], row["completion"]
    if not completion:
        raise SkipRow("empty completion")
    if isinstance(prompt, str) and isinstance(completion, str):
        return Plain(text_of(prompt + completion, place, "prompt + completion"), prompt)
    if isinstance(prompt, str) != isinstance(completion, str):
        raise DataError(f"{place}: prompt and completion must both be text or both be lists of messages")
    turns = _conversation(prompt, place, "prompt")
    answer = _conversation(completion, place, "completion")
    if not any(message["content"] or message.get("tool_calls") for message in answer):
        raise SkipRow("empty completion")
    return Chat(turns + answer, prompt_turns=len(turns))


def _alpaca(row: Mapping[str, Any], place: str) -> Chat:
    output = text_of(row["output"], place, "output")
    if not output.strip():
        raise SkipRow("empty output")
    turns = alpaca_prompt(row, place)
    return Chat([*turns, {"role": "assistant", "content": output}], prompt_turns=len(turns))


def alpaca_prompt(row: Mapping[str, Any], place: str) -> list[Message]:
    """The messages before the answer of a row with `instruction` and perhaps `input`, `system`, `history`."""
    instruction = text_of(row["instruction"], place, "instruction")
    extra = text_of(row.get("input", ""), place, "input")
    turns = system_of(row, place)
    for number, pair in enumerate(row.get("history", [])):
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise DataError(
                f"{place}: history[{number}] must be a pair [question, answer], it is {_short(pair)}"
            )
        for role, content in zip(("user", "assistant"), pair):
            turns.append({"role": role, "content": text_of(content, place, f"history[{number}]")})
    turns.append({"role": "user", "content": f"{instruction}\n{extra}" if extra.strip() else instruction})
    return turns


def _tokens(row: Mapping[str, Any], place: str) -> Tokens:
    ids = _integers(row["input_ids"], place, "input_ids")
    labels = None
    if "labels" in row:
        labels = _integers(row["labels"], place, "labels")
        if len(labels) != len(ids):
            raise DataError(f"{place}: labels has {len(labels)} entries, input_ids {len(ids)}")
    for mask in ("completion_mask", "assistant_masks"):
        if mask in row:
            keep = _integers(row[mask], place, mask, (int, bool))
            if len(keep) != len(ids):
                raise DataError(f"{place}: {mask} has {len(keep)} entries, input_ids {len(ids)}")
            labels = [label if on else -100 for label, on in zip(labels or ids, keep)]
    if not ids:
        raise SkipRow("no tokens")
    return Tokens(ids, labels)


def _plain(row: Mapping[str, Any], place: str) -> Plain:
    text = text_of(row["text"], place, "text")
    if not text.strip():
        raise SkipRow("empty text")
    return Plain(text)


_CONVERTERS = {
    "messages": _messages,
    "conversations": _sharegpt,
    "prompt-completion": _prompt_completion,
    "alpaca": _alpaca,
    "tokens": _tokens,
    "text": _plain,
}


def _conversation(value: Any, place: str, name: str) -> list[Message]:
    """A checked list of messages; columns that Parquet fills with nulls are taken out."""
    messages = []
    for number, turn in enumerate(_nonempty_list(value, place, name)):
        where = f"{name}[{number}]"
        if not isinstance(turn, Mapping):
            raise DataError(f"{place}: {where} must be a message {{role, content}}, it is {_short(turn)}")
        message = {key: item for key, item in turn.items() if item is not None}
        role = message.get("role")
        if role is None:
            raise DataError(f"{place}: {where} has no role; its keys are {', '.join(turn) or 'none'}")
        if role not in ROLES:
            near = difflib.get_close_matches(str(role), [*ROLES, *_SHAREGPT_ROLES], 1)
            hint = f"; did you mean {_SHAREGPT_ROLES.get(near[0], near[0])!r}?" if near else ""
            raise DataError(f"{place}: {where}.role is {role!r}, known are {', '.join(ROLES)}{hint}")
        if "content" not in message:
            if not message.get("tool_calls"):
                raise DataError(f"{place}: {where} ({role}) has no content")
            message["content"] = ""
        text_of(message["content"], place, f"{where}.content")
        messages.append(message)
    return messages


def _tools(row: Mapping[str, Any], place: str) -> list[Any] | None:
    tools = row.get("tools")
    if isinstance(tools, str):
        tools = _json(tools, place, "tools") if tools.strip() else None
    if tools is not None and not isinstance(tools, list):
        raise DataError(f"{place}: tools must be a list of JSON schemas, it is {_short(tools)}")
    return tools or None


def _mapping(value: Any, place: str, name: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(f"{place}: {name} must be a mapping, it is {_short(value)}")
    return dict(value)


def text_of(value: Any, place: str, name: str) -> str:
    """`value`, checked to be text that can be encoded."""
    if not isinstance(value, str):
        raise DataError(f"{place}: {name} must be text, it is {_short(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: {name} is not valid Unicode: a lone surrogate at {error.start}") from error
    return value


def _nonempty_list(value: Any, place: str, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise DataError(f"{place}: {name} must be a list of messages, it is {_short(value)}")
    if not value:
        raise DataError(f"{place}: {name} is an empty list")
    return value


def _integers(value: Any, place: str, name: str, kinds: tuple[type, ...] = (int,)) -> list[int]:
    if not isinstance(value, list) or not all(type(item) in kinds for item in value):
        raise DataError(f"{place}: {name} must be a list of whole numbers, it is {_short(value)}")
    return value


def _json(text: str, place: str, name: str) -> Any:
    try:
        return strict_json.decode(text)
    except strict_json.Malformed as error:
        raise DataError(f"{place}: {name} must be JSON, and is: {error}") from error


def _short(value: Any) -> str:
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 50 else shown[:47] + '...'}"
