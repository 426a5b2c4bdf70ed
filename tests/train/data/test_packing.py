"""Best-fit-decreasing: nothing lost, nothing over capacity, deterministic, as tight as the textbook."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetero.train.data.packing import pack

cases = st.integers(1, 70).flatmap(
    lambda capacity: st.tuples(st.lists(st.integers(1, capacity), max_size=60), st.just(capacity))
)


def best_fit_decreasing(lengths, capacity):
    """The textbook algorithm, by search over all rows; returns the number of rows."""
    room = []
    for length in sorted(lengths, reverse=True):
        fitting = [i for i, free in enumerate(room) if free >= length]
        if fitting:
            room[min(fitting, key=lambda i: room[i])] -= length
        else:
            room.append(capacity - length)
    return len(room)


@settings(max_examples=150, deadline=None)
@given(cases)
def test_properties(case):
    lengths, capacity = case
    rows = pack(lengths, capacity)
    assert sorted(item for row in rows for item in row) == list(range(len(lengths)))
    assert all(sum(lengths[item] for item in row) <= capacity for row in rows)
    assert all(row == sorted(row) for row in rows) and rows == sorted(rows) == pack(list(lengths), capacity)
    assert len(rows) == best_fit_decreasing(lengths, capacity)


@pytest.mark.parametrize("length", [0, 11])
def test_lengths_out_of_range(length):
    with pytest.raises(ValueError, match="1 to 10"):
        pack([3, length], 10)


def test_dense_on_realistic_lengths():
    rng = random.Random(0)
    lengths = [min(2048, int(rng.lognormvariate(5, 1)) + 1) for _ in range(5000)]
    assert sum(lengths) / (len(pack(lengths, 2048)) * 2048) > 0.99
