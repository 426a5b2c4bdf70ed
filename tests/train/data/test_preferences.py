"""Rows of preference data: the layouts that people have, and what is wrong with others."""

from __future__ import annotations

from typing import Any

import pytest

from hetero.errors import DataError
from hetero.train.data.formats import Chat, Plain, SkipRow
from hetero.train.data.preferences import convert_judged, convert_pair

USER, GOOD, BAD = (
    {"role": r, "content": c} for r, c in (("user", "q"), ("assistant", "a"), ("assistant", "b"))
)
SYSTEM = {"role": "system", "content": "s"}
HUMAN, GPT_A, GPT_B = ({"from": f, "value": v} for f, v in (("human", "q"), ("gpt", "a"), ("gpt", "b")))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": [USER], "chosen": [GOOD], "rejected": [BAD]},
        {"prompt": [USER], "chosen": "a", "rejected": "b"},
        {"prompt": [USER], "chosen": GOOD, "rejected": BAD},
        {"chosen": [USER, GOOD], "rejected": [USER, BAD]},
        {"prompt": "q", "chosen": [USER, GOOD], "rejected": [USER, BAD], "score_chosen": 9.0},
        {"conversations": [HUMAN], "chosen": GPT_A, "rejected": GPT_B},
        {"conversations": [HUMAN], "chosen": [GPT_A], "rejected": [GPT_B], "system": ""},
        {"messages": [USER], "chosen": GOOD, "rejected": BAD},
        {"messages": [USER, GOOD], "rejected_response": "b"},
        {"messages": [USER, GOOD], "rejected_response": [BAD]},
        {"instruction": "q", "input": "", "chosen": "a", "rejected": "b"},
        {"prompt": [USER], "chosen": [GOOD], "rejected": [BAD], "margin": None, "tools": None},
    ],
)
def test_layouts_of_pairs(row: dict[str, Any]) -> None:
    pair = convert_pair(row, "p")
    assert (pair.chosen, pair.rejected) == (Chat([USER, GOOD], 1), Chat([USER, BAD], 1))
    assert pair.margin is None


def test_what_else_a_row_says() -> None:
    tool = {"type": "function"}
    row = {"instruction": "q", "system": "s", "chosen": "a", "rejected": "b", "tools": [tool], "margin": 2}
    pair = convert_pair(row | {"chat_template_kwargs": {"x": 1}}, "p")
    assert pair.chosen == Chat([SYSTEM, USER, GOOD], 2, [tool], {"x": 1}) and pair.margin == 2.0
    shared = convert_pair({"conversations": [HUMAN], "system": "s", "chosen": GPT_A, "rejected": GPT_B}, "p")
    assert shared.rejected.messages == [SYSTEM, USER, BAD]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "chosen, rejected, prompt",
    [
        ("1+1 is 2", "1+1 is 3", "1+1 is"),  # a word keeps the blank before it
        ("1+1=2", "1+1=3", "1+1="),
        ("same", "same and more", "sam"),  # no answer is nothing
        ("a", "b", ""),
        (" a", " b", ""),
    ],
)
def test_texts_part_where_they_differ(chosen: str, rejected: str, prompt: str) -> None:
    pair = convert_pair({"chosen": chosen, "rejected": rejected}, "p")
    assert (pair.chosen, pair.rejected) == (Plain(chosen, prompt), Plain(rejected, prompt))


def test_conversations_part_where_they_differ() -> None:
    longer = convert_pair({"chosen": [USER, GOOD], "rejected": [USER, GOOD, USER, BAD]}, "p")
    assert isinstance(longer.chosen, Chat) and longer.chosen.prompt_turns == 1
    apart = convert_pair({"chosen": [USER, GOOD], "rejected": [SYSTEM, USER, BAD]}, "p")
    assert isinstance(apart.chosen, Chat) and apart.chosen.prompt_turns is None


def test_explicit_text_keeps_empty_answers() -> None:
    pair = convert_pair({"prompt": "q", "chosen": "a", "rejected": ""}, "p")
    assert (pair.chosen, pair.rejected) == (Plain("qa", "q"), Plain("q", "q"))


def test_equal_answers_of_no_prompt_are_skipped() -> None:
    for row in ({"chosen": "x", "rejected": "x"}, {"chosen": [USER, GOOD], "rejected": [USER, GOOD]}):
        with pytest.raises(SkipRow, match="are the same"):
            convert_pair(row, "p")


@pytest.mark.parametrize(
    "row, parts",
    [
        ({"prompt": "q", "chosen": "a"}, ["d:7", "no column rejected", "prompt, chosen"]),
        ({"prompt": "q", "chosen": "a", "rejected": None}, ["no column rejected"]),
        ({"prompt": "q", "chosen": "a", "rejected": [BAD]}, ["chosen and rejected must both be text"]),
        (
            {"prompt": [USER], "chosen": [GOOD], "rejected": [{"role": "bot", "content": ""}]},
            ["rejected[0].role"],
        ),
        ({"prompt": [USER], "chosen": [], "rejected": [BAD]}, ["chosen is an empty list"]),
        ({"prompt": 3, "chosen": "a", "rejected": "b"}, ["prompt must be a list of messages"]),
        ({"prompt": "q", "chosen": 1, "rejected": 2}, ["chosen must be a list of messages"]),
        (
            {"prompt": "q", "chosen": "a", "rejected": "b", "margin": "big"},
            ["margin must be a number", "'big'"],
        ),
        (
            {"prompt": "q", "chosen": "a", "rejected": "b", "margin": float("nan")},
            ["margin must be a number"],
        ),
        ({"messages": [USER], "rejected_response": "b"}, ["must end with the assistant's answer"]),
    ],
)
def test_wrong_pairs_are_named(row: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        convert_pair(row, "d:7")
    assert all(part in str(caught.value) for part in parts), caught.value


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": [USER], "completion": [GOOD], "label": True},
        {"messages": [USER, GOOD], "label": 1},
        {"messages": [USER, GOOD], "kto_tag": True},
        {"conversations": [HUMAN, GPT_A], "kto_tag": True},
        {"instruction": "q", "output": "a", "kto_tag": True},
    ],
)
def test_layouts_of_judged_answers(row: dict[str, Any]) -> None:
    (one,) = convert_judged(row, "p")
    assert (one.answer, one.label) == (Chat([USER, GOOD], 1), True)


def test_pairs_are_two_judged_answers() -> None:
    good, bad = convert_judged({"prompt": "q", "chosen": "a", "rejected": "b"}, "p")
    assert (good.answer, good.label, bad.answer, bad.label) == (
        Plain("qa", "q"),
        True,
        Plain("qb", "q"),
        False,
    )


@pytest.mark.parametrize(
    "row, parts",
    [
        ({"prompt": "q", "completion": "a"}, ["d:7", "no column label", "prompt, completion"]),
        ({"prompt": "q", "completion": "a", "label": "yes"}, ["label must be true or false", "'yes'"]),
        ({"prompt": "q", "completion": "a", "label": 0.5}, ["label must be true or false"]),
        ({"text": "a", "label": True}, ["need a prompt"]),
        ({"input_ids": [1], "label": True}, ["need a prompt"]),
        ({"messages": [USER], "label": True}, ["must end with what the assistant answers"]),
        ({"messages": [GOOD], "label": True}, ["must end with what the assistant answers"]),
    ],
)
def test_wrong_judged_rows_are_named(row: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        convert_judged(row, "d:7")
    assert all(part in str(caught.value) for part in parts), caught.value
