"""Strict JSON: each thing that Python's reader lets through or trips over."""

from __future__ import annotations

import pytest

from hetero.train.data.strict_json import Malformed, decode


@pytest.mark.parametrize("text, value", [(' {"a": [1, 2.5, null]}\n', {"a": [1, 2.5, None]}), ("[]", [])])
def test_json(text, value):
    assert decode(text) == value


@pytest.mark.parametrize(
    "text, part",
    [
        ("", "not valid JSON: Expecting value in column 1"),
        ('{"a": 1 2}', "in column 9"),
        ('{"b": {"a": 1, "a": 2}}', "the key 'a' occurs twice"),
        ("[NaN]", "NaN is not valid JSON"),
        ("-Infinity", "-Infinity is not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 10_000, "thousands of digits"),
    ],
)
def test_what_is_refused(text, part):
    with pytest.raises(Malformed) as caught:
        decode(text)
    assert part in str(caught.value)


def test_line_of_wrong_syntax():
    with pytest.raises(Malformed) as caught:
        decode("\n[1,\n 2 3]")
    assert caught.value.line == 3
