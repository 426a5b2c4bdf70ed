"""Row layouts: conversion to canonical form, and errors that name row and field."""

import pytest

from hetero.errors import DataError
from hetero.train.data.formats import Chat, Plain, SkipRow, Tokens, convert

USER, BOT = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    "row, expected",
    [
        ({"messages": [USER, BOT], "id": 3}, Chat([USER, BOT])),
        # what Parquet makes of optional fields
        ({"messages": [USER | {"tool_calls": None}, BOT], "text": None}, Chat([USER, BOT])),
        (
            {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
            Chat([USER, BOT]),
        ),
        ({"conversations": [USER, BOT]}, Chat([USER, BOT])),
        (
            {
                "system": "s",
                "conversations": [{"from": "user", "value": "q"}, {"from": "assistant", "value": "a"}],
            },
            Chat([{"role": "system", "content": "s"}, USER, BOT]),
        ),
        (
            {
                "conversations": [
                    {"from": "function_call", "value": '{"name": "f", "arguments": {}}'},
                    {"from": "observation", "value": "1"},
                ]
            },
            Chat(
                [
                    {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}],
                    },
                    {"role": "tool", "content": "1"},
                ]
            ),
        ),
        ({"prompt": "p", "completion": " c"}, Plain("p c", "p")),
        ({"prompt": [USER], "completion": [BOT]}, Chat([USER, BOT], prompt_turns=1)),
        ({"instruction": "q", "output": "a"}, Chat([USER, BOT], prompt_turns=1)),
        (
            {"instruction": "q", "input": "", "output": "a", "system": "", "history": []},
            Chat([USER, BOT], prompt_turns=1),
        ),
        (
            {"instruction": "do", "input": "this", "output": "a", "system": "s", "history": [["q", "a"]]},
            Chat(
                [{"role": "system", "content": "s"}, USER, BOT, {"role": "user", "content": "do\nthis"}, BOT],
                prompt_turns=4,
            ),
        ),
        ({"text": "t"}, Plain("t")),
        ({"input_ids": [1, 2]}, Tokens([1, 2], None)),
        ({"input_ids": [1, 2], "labels": [-100, 2]}, Tokens([1, 2], [-100, 2])),
        ({"input_ids": [1, 2], "completion_mask": [0, 1]}, Tokens([1, 2], [-100, 2])),
        ({"input_ids": [1, 2], "assistant_masks": [False, True]}, Tokens([1, 2], [-100, 2])),
        ({"messages": [USER, BOT], "tools": '[{"x": 1}]'}, Chat([USER, BOT], tools=[{"x": 1}])),
        (
            {"messages": [USER, BOT], "chat_template_kwargs": {"enable_thinking": False}},
            Chat([USER, BOT], template_kwargs={"enable_thinking": False}),
        ),
    ],
)
def test_layouts(row, expected):
    assert convert(row, "f:1") == expected


@pytest.mark.parametrize(
    "row, parts",
    [
        ({"messages": [{"content": "q"}]}, ["messages[0] has no role", "content"]),
        (
            {"messages": [USER, {"role": "asistant", "content": "a"}]},
            ["messages[1].role is 'asistant'", "'assistant'"],
        ),
        ({"messages": [{"role": "human", "content": "a"}]}, ["did you mean 'user'"]),
        ({"messages": [{"role": "user", "content": 7}]}, ["messages[0].content must be text, it is int 7"]),
        ({"messages": [{"role": "user", "content": [1]}]}, ["messages[0].content must be text, it is list"]),
        ({"messages": [{"role": "user"}]}, ["messages[0] (user) has no content"]),
        ({"messages": ["hi"]}, ["messages[0] must be a message"]),
        ({"messages": "hi"}, ["messages must be a list"]),
        ({"messages": []}, ["messages is an empty list"]),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, ["lone surrogate"]),
        ({"messages": [USER], "tools": 3}, ["tools must be a list"]),
        ({"messages": [USER], "tools": "{"}, ["tools must be JSON"]),
        ({"messages": [USER], "chat_template_kwargs": 3}, ["chat_template_kwargs must be a mapping"]),
        ({"conversations": [{"from": "alien", "value": "x"}]}, ["conversations[0].from is 'alien'", "human"]),
        ({"conversations": [{"value": "x"}]}, ["conversations[0] needs the keys from and value"]),
        (
            {"conversations": [{"from": "function_call", "value": "f()"}]},
            ["conversations[0].value must be JSON"],
        ),
        ({"messages": [USER], "tools": "[" * 100_000}, ["tools must be JSON", "nested too deeply"]),
        ({"conversations": [{"from": ["gpt"], "value": "x"}]}, ["conversations[0].from is ['gpt']"]),
        ({"prompt": "p", "completion": [BOT]}, ["both be text or both"]),
        ({"instruction": "i", "output": 3}, ["output must be text"]),
        ({"instruction": "i", "output": "o", "history": ["x"]}, ["history[0] must be a pair"]),
        ({"text": 3}, ["text must be text, it is int 3"]),
        ({"input_ids": ["a"]}, ["input_ids must be a list of whole numbers"]),
        ({"input_ids": [True]}, ["input_ids must be a list of whole numbers"]),
        ({"input_ids": [1], "labels": [False]}, ["labels must be a list of whole numbers"]),
        ({"input_ids": [1], "labels": [1, 2]}, ["labels has 2 entries, input_ids 1"]),
        ({"input_ids": [1], "completion_mask": []}, ["completion_mask has 0 entries"]),
        ({"prompt": "x", "chosen": "a", "rejected": "b"}, ["preference data"]),
        ({"massages": []}, ["no known layout", "massages (did you mean messages?)"]),
        ({"messages": None}, ["no known layout: the columns are none"]),
    ],
)
def test_wrong_rows(row, parts):
    with pytest.raises(DataError) as caught:
        convert(row, "data.jsonl:17")
    for part in ["data.jsonl:17: ", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "p", "completion": ""},
        {"prompt": [USER], "completion": []},
        {"prompt": [USER], "completion": [{"role": "assistant", "content": ""}]},
        {"instruction": "i", "output": " "},
        {"text": "\n"},
        {"input_ids": []},
    ],
)
def test_rows_without_anything_to_learn(row):
    with pytest.raises(SkipRow):
        convert(row, "f:1")
