"""Calling rewards: none can spoil another's, whatever it does."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest

from hetero.errors import RolloutError
from hetero.train.rewards import Rewards

TEXTS = ["a", "bb", "ccc"]
IDS = [[1], [1, 2], [1, 2, 3]]


def length(completions: list[str], **_: Any) -> list[float]:
    return [float(len(c)) for c in completions]


def score(on_error: str = "raise", **functions: Any) -> tuple[list[list[float | None]], dict[str, int]]:
    rewards = Rewards(functions, on_error=on_error)
    return rewards(["p"] * 3, TEXTS, IDS, {"answer": ["x", "y", "z"]}), rewards.failures


def test_values_stand_by_completion_then_function() -> None:
    async def slow(completion_ids: list[list[int]], **_: Any) -> list[float]:
        await asyncio.sleep(0.01)
        return [10.0 * len(ids) for ids in completion_ids]

    values, _ = score(length=length, slow=slow)
    assert values == [[1, 10], [2, 20], [3, 30]]


def test_columns_and_prompts_reach_the_function() -> None:
    def seen(
        prompts: list[str], completions: list[str], completion_ids: Any, answer: list[str]
    ) -> list[float]:
        assert (prompts, completions, completion_ids, answer) == (["p"] * 3, TEXTS, IDS, ["x", "y", "z"])
        return [1.0] * 3

    assert score(seen=seen)[0] == [[1.0]] * 3


def test_a_function_that_changes_its_lists_disturbs_no_other() -> None:
    def vandal(completions: list[str], completion_ids: list[Any], **_: Any) -> list[float]:
        completions.clear()
        completion_ids.reverse()
        return [0.0] * 3

    assert score(vandal=vandal, length=length)[0] == [[0, 1], [0, 2], [0, 3]]


def raises(**_: Any) -> list[float]:
    raise KeyError("gold")


@pytest.mark.parametrize(
    "wrong, message",
    [
        (raises, "reward wrong: KeyError: 'gold'"),
        (lambda **_: [1.0, 2.0], "reward wrong: it gave 2 values for 3 completions"),
        (lambda **_: None, "reward wrong: TypeError"),
        (lambda **_: ["high"] * 3, "reward wrong: ValueError: could not convert string to float: 'high'"),
    ],
)
def test_a_broken_function_is_named_or_left_out(wrong: Any, message: str) -> None:
    with pytest.raises(RolloutError, match=message):
        score(wrong=wrong, length=length)
    values, failures = score("skip", wrong=wrong, length=length)
    assert values == [[None, 1], [None, 2], [None, 3]] and failures == {"wrong": 3, "length": 0}


def test_nan_is_none_for_its_own_completion() -> None:
    values, failures = score(odd=lambda **_: [1.0, math.nan, -math.inf], length=length)
    assert values == [[1, 1], [None, 2], [None, 3]] and failures == {"odd": 2, "length": 0}


def test_names_and_weights_must_fit() -> None:
    with pytest.raises(RolloutError, match="no reward function"):
        Rewards({})
    with pytest.raises(RolloutError, match="2 reward_weights for 1 reward_funcs"):
        Rewards({"length": length}, [1, 2])


def test_what_hangs_or_exits_has_failed_and_shifts_no_other() -> None:
    def hangs(**_: Any) -> list[float]:
        time.sleep(60)
        return [9.0] * 3

    async def hangs_async(**_: Any) -> list[float]:
        await asyncio.sleep(60)
        return [9.0] * 3

    def exits(**_: Any) -> list[float]:
        raise SystemExit(1)

    functions = {"hangs": hangs, "hangs_async": hangs_async, "exits": exits, "length": length}
    rewards = Rewards(functions, on_error="skip", timeout=0.2)
    start = time.monotonic()
    values = rewards(["p"] * 3, TEXTS, IDS, {})
    assert values == [[None, None, None, 1], [None, None, None, 2], [None, None, None, 3]]
    assert rewards.failures == {"hangs": 3, "hangs_async": 3, "exits": 3, "length": 0}
    assert rewards.failed == [[True, True, True, False]] * 3
    assert time.monotonic() - start < 5
    with pytest.raises(RolloutError, match=r"reward hangs: it took longer than 0.2 s \(reward_timeout\)"):
        Rewards({"hangs": hangs}, timeout=0.2)(["p"] * 3, TEXTS, IDS, {})


def test_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    score("skip", wrong=raises, odd=lambda **_: [1.0, math.nan, 2.0])
    assert "reward wrong failed and is left out for 3 completions: KeyError: 'gold'" in caplog.text
    assert "reward odd gave NaN or infinity for 1 of 3 completions" in caplog.text
