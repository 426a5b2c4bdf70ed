"""Completions with programs: which block runs, and what its score is."""

from __future__ import annotations

import pytest

from hetero.errors import DataError, RecipeError
from hetero.train.rewards import code, load
from hetero.train.sandbox import available

RIGHT = "So:\n```python\ndef add(a, b):\n    return a + b\n```\nDone."
TESTS = ["assert add(1, 2) == 3", "assert add(1, 2) == 4"]


def test_the_last_block_is_the_program() -> None:
    assert code.program_of("```\nx = 1\n```\n```py\nx = 2\n```") == "x = 2\n"
    assert code.program_of([{"role": "assistant", "content": RIGHT}]).startswith("def add")  # type: ignore[union-attr]
    assert code.program_of("x = 1") is None and code.program_of("```python\nx = 1") is None


@pytest.mark.parametrize("function", [code.code, code.code_unsandboxed], ids=lambda f: f.__name__)
def test_share_of_tests(function: object) -> None:
    if function is code.code and (why := available()):
        pytest.skip(why)
    texts = [RIGHT, "no program", RIGHT, RIGHT, "```\nexit(0)\n```", RIGHT]
    tests = [TESTS, TESTS, TESTS[0], None, TESTS, []]
    assert function(texts, tests=tests) == [0.5, 0, 1, None, 0, None]  # type: ignore[operator]


def test_tests_that_are_no_source() -> None:
    with pytest.raises(DataError, match="code: tests is Python source or a list of such"):
        code.code([RIGHT], tests=[[1]])
    with pytest.raises(DataError, match="code needs the dataset's column 'tests'"):
        code.code([RIGHT])


def test_refused_by_name_where_nothing_isolates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "available", lambda: "no namespaces")
    with pytest.raises(RecipeError, match="code: no namespaces. Name `code_unsandboxed` instead"):
        load("code")
    assert load("code_unsandboxed") is code.code_unsandboxed
