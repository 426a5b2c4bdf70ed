"""What the builtin rewards give for good, bad and odd completions."""

from __future__ import annotations

import pytest

from hetero.errors import DataError
from hetero.train.rewards import builtin

GOOD = "<think>two and two</think>\n<answer> 4 </answer>"


def test_think_format() -> None:
    texts = [
        GOOD,
        GOOD + " so",
        "<answer>4</answer>",
        "<think>a</think><think>b</think><answer>4</answer>",
        "",
    ]
    assert builtin.think_format(texts) == [1, 0, 0, 0, 0]
    assert builtin.think_format([[{"role": "assistant", "content": GOOD}]]) == [1]


def test_exact_answer() -> None:
    texts = [GOOD, "4", "<answer>5</answer><answer>4</answer>", "<answer>44</answer>", "4"]
    assert builtin.exact_answer(texts, answer=[4, "4", "4", "4", None]) == [1, 1, 1, 0, None]


def test_last_number() -> None:
    texts = ["17 * 23 = 391", "so 1,234.50.", "none", "-3", "x", "4 or 5"]
    answers = ["391", 1234.5, 7, "-3", "blue", 4]
    assert builtin.last_number(texts, answer=answers) == [1, 1, 0, 1, None, 0]


def test_repetition() -> None:
    fresh, stuck, short = builtin.repetition(["a b c d e f", "a b c d " * 9, "a b c"])
    assert fresh == 0 and stuck < -0.8 and short == 0


def test_soft_overlong() -> None:
    lengths = [0, 79, 80, 90, 100, 120]
    found = builtin.soft_overlong([""] * 6, [[0] * n for n in lengths], max_completion_length=100)
    assert found == pytest.approx([0, 0, 0, -0.5, -1, -1])


@pytest.mark.parametrize("name, column", [("exact_answer", "answer"), ("last_number", "answer")])
def test_a_column_that_is_missing_is_named(name: str, column: str) -> None:
    with pytest.raises(DataError, match=f"{name} needs the dataset's column '{column}'"):
        builtin.FUNCTIONS[name](completions=["x"])
