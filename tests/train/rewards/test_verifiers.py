"""Verifiers of other packages on their own answers, wrong ones, and none."""

from __future__ import annotations

import importlib.util
import json

import pytest

from hetero.errors import DataError, RecipeError
from hetero.train.rewards import load, verifiers


def test_math_verify() -> None:
    pytest.importorskip("math_verify")
    texts = ["so it is $\\frac{1}{2}$", "The answer is 0.5.", "\\boxed{3}", "I do not know", "x"]
    solutions = ["$1/2$", "$\\frac{1}{2}$", "$4$", "$1$", None]
    assert verifiers.math_verify(texts, solution=solutions) == [1, 1, 0, 0, None]
    with pytest.raises(DataError, match="math_verify needs the dataset's column 'solution'"):
        verifiers.math_verify(texts)


@pytest.mark.parametrize("task", ["chain_sum", "word_sequence_reversal", "countdown"])
def test_reasoning_gym(task: str) -> None:
    package = pytest.importorskip("reasoning_gym")
    entry = next(iter(package.create_dataset(task, size=1, seed=3)))
    right = str(entry["answer"])
    texts = [right, f"<think>hm</think> <answer> {right} </answer>", "", right]
    about = [entry["metadata"], json.dumps(entry["metadata"], default=str), entry["metadata"], None]
    if task == "countdown":
        about[1] = entry["metadata"]
    scores = verifiers.reasoning_gym([entry["question"]] * 4, texts, answer=[right] * 4, metadata=about)
    assert scores[:2] == [1, 1] and scores[2] is not None and scores[2] < 1 and scores[3] is None


def test_metadata_of_no_task() -> None:
    pytest.importorskip("reasoning_gym")
    with pytest.raises(DataError, match="metadata names no source_dataset"):
        verifiers.reasoning_gym(["p"], ["c"], answer=["1"], metadata=[{"x": 1}])


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in ("math_verify", "reasoning_gym"):
        with pytest.raises(
            RecipeError, match=f"{name} needs the package .* pip install 'hetero\\[verifiers\\]'"
        ):
            load(name)
