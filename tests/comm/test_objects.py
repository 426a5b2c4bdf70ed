from __future__ import annotations

import math

import pytest
import torch

from hetero.comm import CommError, objects


def test_json_values_come_back_as_they_were() -> None:
    value = {"a": [1, 2.5, None, True, "ü中\n"], "b": {"c": math.inf}, "big": 2**80, "": []}
    assert objects.decode(objects.encode(value)) == value
    assert objects.decode(objects.encode((1, (2,)))) == [1, [2]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [{1: 2}]}, r"object\['a'\]\[0\] has the key 1"),
        ([torch.ones(1)], r"object\[0\] is a Tensor"),
        ({1, 2}, "object is a set"),
        (b"x", "object is a bytes"),
    ],
)
def test_other_values_are_refused_with_their_place(value: object, text: str) -> None:
    with pytest.raises(CommError, match=text):
        objects.encode(value)
