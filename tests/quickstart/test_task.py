from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetero.errors import DataError
from hetero.quickstart import task
from hetero.quickstart.task import Problem, Task


def test_no_held_out_problem_resembles_one_of_training() -> None:
    made = task.build()
    assert (len(made.train), len(made.held_out)) == (task.TRAIN_PROBLEMS, task.HELD_OUT_PROBLEMS)
    everything = made.train + made.held_out
    assert len({p.question for p in everything}) == len(everything)
    assert not {frozenset(p.words) for p in made.train} & {frozenset(p.words) for p in made.held_out}


def test_problems_are_the_same_each_time_and_do_not_depend_on_each_other(problems: Task) -> None:
    again = task.build(train=80, held_out=12)
    assert again.held_out == problems.held_out
    assert again.train[:40] == problems.train


def test_answers_are_the_words_backwards(problems: Task) -> None:
    for problem in problems.train + problems.held_out:
        words = problem.question.rpartition(": ")[2].split(", ")
        assert task.MIN_WORDS <= len(words) <= task.MAX_WORDS
        assert len({w.lower() for w in words}) == len(words)
        assert problem.answer.split(", ") == words[::-1]


def _problem(*words: str) -> Problem:
    question = f"Reverse this list of words: {', '.join(words)}"
    answer = ", ".join(reversed(words))
    return Problem({"question": question, "answer": answer, "metadata": {"words": list(words)}})


@pytest.mark.parametrize(
    ("output", "strict", "lenient"),
    [
        ("do, you, How", True, True),
        (" do, you, How\n", True, True),
        ("do,you,How", False, True),
        ("Do, you, how", False, True),
        ("The reversed list of How, you, do is:\n1. do\n2. you\n3. How", False, True),
        ("['do', 'you', 'how'].", False, True),
        ("How, you, do", False, False),
        ("you, do, How, you, do", False, False),
        ("do, you", False, False),
        ("doyouHow", False, False),
        ("", False, False),
    ],
)
def test_judgement(problems: Task, output: str, strict: bool, lenient: bool) -> None:
    problem = _problem("How", "you", "do")
    assert problems.strict(output, problem) is strict
    assert problems.lenient(output, problem) is lenient


def test_echoing_the_list_never_counts(problems: Task) -> None:
    for problem in problems.held_out:
        echo = ", ".join(problem.words)
        assert not problems.lenient(f"{echo}\n{echo}\n{echo}", problem)


def test_rows_are_what_a_recipe_reads(problems: Task, tmp_path: Path) -> None:
    path = task.write_jsonl(problems.train, tmp_path / "new" / "train.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len(problems.train)
    assert [turn["role"] for turn in rows[0]["prompt"]] == ["system", "user"]
    assert rows[0]["completion"] == [{"role": "assistant", "content": problems.train[0].answer}]


def test_too_many_problems_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "MIN_WORDS", 1)
    monkeypatch.setattr(task, "MAX_WORDS", 1)
    with pytest.raises(DataError, match="different problems, 100000 were asked for"):
        task.build(train=100_000, held_out=1)
