"""The quickstart's task: reverse a list of words. Generated problems with checkable answers.

The problems come from ``reasoning_gym``'s ``word_sequence_reversal`` (Apache-2.0). Small language models echo
such a list instead of reversing it; a short fine-tuning teaches them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hetero.errors import DataError

GENERATOR = "word_sequence_reversal"
MIN_WORDS, MAX_WORDS = 3, 6
TRAIN_PROBLEMS, HELD_OUT_PROBLEMS = 400, 100
# reasoning_gym seeds problem i with `seed + i`: seeds that are closer than the sizes would repeat problems.
TRAIN_SEED, HELD_OUT_SEED = 1_000_000, 2_000_000
#: In training and in both evaluations alike; asks the untrained model for the bare answer, too.
SYSTEM_PROMPT = "Answer with the list only."


@dataclass(frozen=True)
class Problem:
    """A question, its answer, and the generator's own record, which its verifier reads."""

    entry: dict[str, Any]

    @property
    def question(self) -> str:
        """What the user asks: the generator's last line. What it says on the form is in the system prompt."""
        return self.entry["question"].strip().splitlines()[-1]

    @property
    def answer(self) -> str:
        """The only right answer: the words in reverse order, as "c, b, a"."""
        return self.entry["answer"]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words to reverse, lower case, in the question's order."""
        return tuple(word.lower() for word in self.entry["metadata"]["words"])

    @property
    def prompt(self) -> list[dict[str, str]]:
        """The conversation up to the assistant's turn."""
        return [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": self.question},
        ]


@dataclass(frozen=True)
class Task:
    """Problems to train on and problems to judge by. No two of all of them have the same words."""

    train: list[Problem]
    held_out: list[Problem]
    generator: Any

    def strict(self, output: str, problem: Problem) -> bool:
        """Whether ``output`` is the answer and nothing else, by the generator's verifier."""
        return self.generator.score_answer(output.strip(), problem.entry) == 1.0

    @staticmethod
    def lenient(output: str, problem: Problem) -> bool:
        """Whether the reversed words stand in a row anywhere in ``output``.

        Case, punctuation, numbering and what is said around them do not count, so that a model which knows
        the answer but not the format is not called wrong.
        """
        wanted = problem.words[::-1]
        said = [word for word in re.findall(r"[^\W_]+", output.lower()) if word in wanted]
        return any(tuple(said[i : i + len(wanted)]) == wanted for i in range(len(said) - len(wanted) + 1))


def build(train: int = TRAIN_PROBLEMS, held_out: int = HELD_OUT_PROBLEMS) -> Task:
    """Generate the task; the same on every machine.

    Left out are lists with a repeated word (echoing could look like reversing) and lists whose words, in any
    order and case, another problem has: so no held-out problem resembles one of training.

    Raises:
        DataError: ``reasoning_gym`` is not installed, or runs out of new problems.
    """
    seen: set[frozenset[str]] = set()
    generator, judged = _draw(held_out, HELD_OUT_SEED, seen)
    _, learned = _draw(train, TRAIN_SEED, seen)
    return Task(learned, judged, generator)


def _draw(count: int, seed: int, seen: set[frozenset[str]]) -> tuple[Any, list[Problem]]:
    try:
        import reasoning_gym
    except ImportError as error:
        raise DataError(
            f"the quickstart's problems come from reasoning-gym, which cannot be imported ({error}); "
            "install it with: pip install 'hetero[quickstart]'"
        ) from error
    source = reasoning_gym.create_dataset(
        GENERATOR, seed=seed, size=4 * count + 100, min_words=MIN_WORDS, max_words=MAX_WORDS
    )
    problems: list[Problem] = []
    for entry in source:
        problem = Problem(entry)
        key = frozenset(problem.words)
        if len(key) < len(problem.words) or key in seen:
            continue
        seen.add(key)
        problems.append(problem)
        if len(problems) == count:
            return source, problems
    raise DataError(f"{GENERATOR} gave only {len(problems)} different problems, {count} were asked for")


def write_jsonl(problems: Iterable[Problem], path: Path) -> Path:
    """Write ``problems`` as prompt-completion rows, which is what a recipe's ``dataset_name`` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for problem in problems:
            completion = [{"role": "assistant", "content": problem.answer}]
            file.write(json.dumps({"prompt": problem.prompt, "completion": completion}) + "\n")
    return path
