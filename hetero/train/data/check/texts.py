"""What can be wrong with text that is well formed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hetero.train.data.formats import Chat

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# UTF-8 that was read as Latin-1 or Windows-1252: the two or three letters that such a mistake makes of one.
_MOJIBAKE = re.compile(
    "\u00e2\u20ac[\u0153\u009d\u2122\u2013\u0093\u0094\u02dc]|\u00c3[\u00a0-\u00bf]|\u00ef\u00bf\u00bd"
)


def of(value: Any) -> str:
    """All text in a row, joined: what near duplicates are compared by."""
    return "\n".join(_strings(value))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in ("role", "from"):
                yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def complaints(row: Mapping[str, Any], named: list[tuple[str, Any]]) -> Iterator[str]:
    """Sentences about text that looks damaged, and about conversations in an order that teaches little."""
    text = of(row)
    if "\ufffd" in text:
        yield "has U+FFFD, which stands for a byte that could not be decoded"
    if found := _MOJIBAKE.search(text):
        yield f"looks like UTF-8 that was read as another encoding: {found[0]!r}"
    if found := _CONTROL.search(text):
        yield f"has the control character {found[0]!r}"
    for name, example in named:
        if isinstance(example, Chat):
            yield from _turns(name, [message["role"] for message in example.messages])


def _turns(name: str, roles: list[str]) -> Iterator[str]:
    prefix = f"{name}: " if name not in ("", "prompt") else ""
    if name != "prompt" and roles[-1] != "assistant":
        yield f"{prefix}the last turn is the {roles[-1]}'s, so nothing answers it"
    for number, (one, two) in enumerate(itertools.pairwise(roles), 1):
        if one == two and one in ("user", "assistant"):
            yield f"{prefix}turns {number} and {number + 1} are both the {one}'s"
    if any(role in ("system", "developer") for role in roles[1:]):
        yield f"{prefix}a system message comes after other turns"
