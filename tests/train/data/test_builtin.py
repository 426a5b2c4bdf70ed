"""The builtin data is exact: it is what the golden numbers were made with."""

import random
import sys

import pytest

from hetero.errors import DataError
from hetero.train.data import builtin


def test_rows_of_the_golden_file():
    rows = list(builtin.rows("hetero:arithmetic?rows=8&seed=0&repeat=3"))
    rng = random.Random(0)
    for i, row in enumerate(rows):
        a, b, sign = rng.randint(0, 99), rng.randint(0, 99), rng.choice("+-*")
        answer = f"{a} {sign} {b} = {eval(f'{a}{sign}{b}')}"
        assert row["messages"][0] == {"role": "user", "content": f"What is {a} {sign} {b}?"}
        assert row["messages"][1] == {"role": "assistant", "content": answer * (1 + i % 3)}


def test_splits_differ_and_repeat():
    train, test = (list(builtin.rows("hetero:arithmetic?rows=50", split)) for split in ("train", "test"))
    assert len(train) == len(test) == 50 and train != test
    assert list(builtin.rows("hetero:arithmetic?rows=50", "test")) == test


@pytest.mark.parametrize(
    "name",
    [
        "hetero:poems",
        "hetero:arithmetic?rows=x",
        "hetero:arithmetic?rows",
        "hetero:arithmetic?n=1",
        "hetero:arithmetic?repeat=0",
    ],
)
def test_wrong_names(name):
    with pytest.raises(DataError, match=r"hetero:arithmetic|parameters"):
        list(builtin.rows(name))


def test_pairs_are_answers_forwards_and_backwards():
    pairs = list(builtin.rows("hetero:arithmetic-pairs?rows=3&repeat=2"))
    messages = list(builtin.rows("hetero:arithmetic?rows=3&repeat=2"))
    for pair, row in zip(pairs, messages, strict=True):
        assert pair["prompt"] + pair["chosen"] == row["messages"]
        assert sorted(pair["rejected"][0]["content"]) == sorted(pair["chosen"][0]["content"])
    assert pairs[0]["rejected"][0]["content"] == pairs[0]["chosen"][0]["content"][::-1]


def test_reasoning_gym_entries_are_scored_by_their_own_task():
    pytest.importorskip("reasoning_gym")
    from hetero.train.rewards import load

    name = "hetero:reasoning-gym/chain_sum?rows=3&seed=1"
    train, held_out = list(builtin.rows(name)), list(builtin.rows(name, "test"))
    assert len(train) == 3 and train == list(builtin.rows(name)) and not any(r in train for r in held_out)
    columns = {key: [row[key] for row in train] for key in ("answer", "metadata")}
    prompts, answers = [row["prompt"] for row in train], columns["answer"]
    assert load("reasoning_gym")(prompts=prompts, completions=answers, **columns) == [1, 1, 1]
    with pytest.raises(DataError, match="no task 'chain_sun' that can be used; near to it: chain_sum"):
        list(builtin.rows("hetero:reasoning-gym/chain_sun"))


def test_reasoning_gym_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(DataError, match=r"cannot be imported .*pip install 'hetero\[verifiers\]'"):
        list(builtin.rows("hetero:reasoning-gym/chain_sum"))
