"""Value types of recipe keys: what a scalar may look like, and how a wrong one is described to its author."""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any, Literal, Union

import annotated_types
from pydantic import BeforeValidator, Field

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _flag(value: Any) -> Any:
    return _WORDS.get(value.lower(), value) if isinstance(value, str) else value


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _real(value: Any) -> Any:
    """Text such as "1e-5" is a number: people quote it because YAML 1.1 reads `1e-5` as text."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _names(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _numbers(value: Any) -> Any:
    return [_real(item) for item in value] if isinstance(value, list) else value


def _reporters(value: Any) -> Any:
    if isinstance(value, str):
        return [] if value.lower() == "none" else _names(value)
    return value


Flag = Annotated[bool, BeforeValidator(_flag)]
Whole = Annotated[int, BeforeValidator(_whole)]
Real = Annotated[float, BeforeValidator(_real), Field(allow_inf_nan=False)]
Names = Annotated[list[str], BeforeValidator(_names)]
Numbers = Annotated[list[float], BeforeValidator(_numbers)]
Reporters = Annotated[list[Literal["tensorboard"]], BeforeValidator(_reporters)]

_LISTS: dict[Any, str] = {str: "a list of names", float: "a list of numbers"}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", dict: "a mapping"}


def expected(annotation: Any, metadata: typing.Iterable[Any] = ()) -> str:
    """What a key of this type may hold, in words: "a whole number of at least 1", "one of cosine, linear"."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        inner, *more = typing.get_args(annotation)
        return expected(inner, [*metadata, *more])
    if origin is Literal:
        choices = [plain(choice) for choice in typing.get_args(annotation)]
        return "one of " + ", ".join(choices) if len(choices) > 1 else choices[0]
    if origin in (Union, types.UnionType):
        options = [a for a in typing.get_args(annotation) if a is not type(None)]
        return " or ".join(dict.fromkeys(expected(option, metadata) for option in options))
    if origin is list:
        (item,) = typing.get_args(annotation)
        if item in _LISTS:
            return _LISTS[item]
        return f"none or a list of {expected(item).removeprefix('one of ')}"
    words = _KINDS[origin or annotation]
    limits = [text for item in _flatten(metadata) for text in _limit(item)]
    return " ".join([words, " and ".join(limits)]) if limits else words


def _flatten(metadata: typing.Iterable[Any]) -> typing.Iterator[Any]:
    for item in metadata:
        yield from getattr(item, "metadata", None) or [item]


def _limit(item: Any) -> list[str]:
    match item:
        case annotated_types.Ge(bound):
            return [f"of at least {bound}"]
        case annotated_types.Gt(bound):
            return [f"above {bound}"]
        case annotated_types.Le(bound):
            return [f"of at most {bound}"]
        case annotated_types.Lt(bound):
            return [f"below {bound}"]
    return []


def given(value: Any) -> str:
    """A wrong value in words: 'the text "many"', "the number 7", "nothing"."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return plain(value)
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f'the text "{value if len(value) <= 60 else value[:57] + "..."}"'
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else str(value)


def plain(value: Any) -> str:
    """A value as it is written in YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(plain(item) for item in value) + "]"
    return str(value)
