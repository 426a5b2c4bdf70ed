"""JSON as its standard has it: no NaN, no key twice, no depth or number that breaks the reader."""

from __future__ import annotations

import json
from typing import Any


class Malformed(ValueError):
    """Text that is no JSON; the message is one sentence about what is wrong with it. `line` is None if unknown."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def decode(text: str) -> Any:
    """The value that `text` is.

    Raises:
        Malformed: with line and column where syntax is wrong.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise Malformed(f"not valid JSON: {error.msg} in column {error.colno}", error.lineno) from error
    except RecursionError as error:
        raise Malformed("nested too deeply") from error
    except Malformed:
        raise
    except ValueError as error:  # Python refuses to read them, for the time that it would take
        raise Malformed("a whole number of thousands of digits") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        raise Malformed(f"the key {next(k for k in keys if keys.count(k) > 1)!r} occurs twice in one object")
    return mapping


def _no_constant(text: str) -> Any:
    raise Malformed(f"{text} is not valid JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
