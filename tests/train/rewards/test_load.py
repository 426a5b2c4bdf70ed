"""Reward functions by name: builtins, packages, files; and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetero.errors import RecipeError
from hetero.train.rewards import builtin, load


def test_builtin_package_and_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def best(completions, **_):\n    return [2.0 for _ in completions]\n")
    assert load("repetition") is builtin.repetition
    assert load("hetero.train.rewards.builtin:repetition") is builtin.repetition
    assert load(f"{tmp_path / 'mine.py'}:best")(completions=["x"]) == [2.0]


@pytest.mark.parametrize(
    "name, message",
    [
        ("accuracy", "neither a builtin .*think_format"),
        ("nowhere.at.all:f", "importing nowhere.at.all raised ModuleNotFoundError"),
        ("math:quaver", "math has no 'quaver'"),
        ("math:pi", "math:pi is a float, not a function"),
        ("lost.py:f", "there is no file .*lost.py"),
        ("broken.py:f", "broken.py raised ZeroDivisionError"),
        (":f", "neither a builtin"),
    ],
)
def test_errors_name_the_thing(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=message):
        load(name)
