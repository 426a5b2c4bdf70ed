"""Rewards that need no code of the user's. Each takes lists of equal length and gives one number a completion."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hetero.errors import DataError

#: What DeepSeek-R1 and its followers ask for.
_THINKING = re.compile(
    r"\A\s*<think>(?!.*<think>).*?</think>\s*<answer>(?!.*<answer>).*?</answer>\s*\Z", re.DOTALL
)
_ANSWER = re.compile(r"<answer>\s*(.*?)\s*</answer>", re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def text_of(completion: Any) -> str:
    """The words of a completion: a string, or the last assistant message's content."""
    return completion if isinstance(completion, str) else str(completion[-1]["content"])


def think_format(completions: Sequence[Any], **_: Any) -> list[float]:
    """1 for ``<think>…</think><answer>…</answer>`` and nothing else, else 0 (DeepSeek-AI 2025, arXiv 2501.12948)."""
    return [1.0 if _THINKING.match(text_of(c)) else 0.0 for c in completions]


def exact_answer(
    completions: Sequence[Any], answer: Sequence[Any] | None = None, **_: Any
) -> list[float | None]:
    """1 if the text in ``<answer>`` (else the whole completion, stripped) is the row's ``answer``, else 0."""
    return [
        None if right is None else float(answer_of(text_of(c)) == str(right).strip())
        for c, right in zip(completions, column("exact_answer", "answer", answer))
    ]


def last_number(
    completions: Sequence[Any], answer: Sequence[Any] | None = None, **_: Any
) -> list[float | None]:
    """1 if the last number in the completion equals the row's ``answer``, else 0; None where that is no number."""
    scores: list[float | None] = []
    for completion, right in zip(completions, column("last_number", "answer", answer)):
        goal, found = _number(str(right)), _number(text_of(completion))
        scores.append(None if goal is None else float(found == goal))
    return scores


def repetition(completions: Sequence[Any], **_: Any) -> list[float]:
    """From -1 to 0: minus the share of 4-word sequences that were there before; 0 for fewer than 4 words."""
    scores = []
    for completion in completions:
        words = text_of(completion).split()
        grams = Counter(tuple(words[i : i + 4]) for i in range(len(words) - 3))
        total = grams.total()
        scores.append(-(total - len(grams)) / total if total else 0.0)
    return scores


def soft_overlong(
    completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], max_completion_length: int, **_: Any
) -> list[float]:
    """0 up to 80 % of ``max_completion_length``, falling to -1 at all of it (DAPO, arXiv 2503.14476, equation 13)."""
    room = max(1, max_completion_length // 5)
    start = max_completion_length - room
    return [-min(1.0, max(0, len(ids) - start) / room) for ids in completion_ids]


#: Names that a recipe may use.
FUNCTIONS = {f.__name__: f for f in (think_format, exact_answer, last_number, repetition, soft_overlong)}


def answer_of(text: str) -> str:
    """What stands in the last ``<answer>``, else the whole text, stripped."""
    tagged = _ANSWER.findall(text)
    return tagged[-1] if tagged else text.strip()


def _number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def column(function: str, name: str, values: Sequence[Any] | None) -> Sequence[Any]:
    """``values``, which the dataset's column ``name`` must have given to ``function``; DataError if it did not."""
    if values is None:
        raise DataError(f"reward {function} needs the dataset's column {name!r}, which is not there")
    return values
