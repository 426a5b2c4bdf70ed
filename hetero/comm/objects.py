"""Python objects between ranks as JSON: receiving one never runs code, which a pickle would."""

from __future__ import annotations

import json
from typing import Any

from hetero.errors import CommError

_PLAIN = (str, int, float, bool, type(None))


def encode(value: Any) -> bytes:
    """``value`` as UTF-8 JSON. Tuples become lists.

    Raises:
        CommError: a part of it is not a str, int, float, bool, None, list, tuple or dict with str keys.
    """
    _check(value, "object")
    return json.dumps(value).encode()


def decode(data: bytes) -> Any:
    """What :func:`encode` was given."""
    return json.loads(data)


def _check(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise CommError(
                    f"{where} has the key {key!r}: object collectives take dicts with str keys only"
                )
            _check(item, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check(item, f"{where}[{index}]")
    elif not isinstance(value, _PLAIN):
        raise CommError(
            f"{where} is a {type(value).__name__}: object collectives carry JSON "
            "(str, int, float, bool, None, list, dict), never pickles; tensors have their own collectives"
        )
