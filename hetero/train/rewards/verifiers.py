"""Rewards by other packages' verifiers; the extra ``verifiers`` installs them."""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

from hetero.errors import DataError, RecipeError
from hetero.train.rewards.builtin import answer_of, column, text_of


def math_verify(
    completions: Sequence[Any], solution: Sequence[Any] | None = None, **_: Any
) -> list[float | None]:
    """1 if the completion's answer equals the row's ``solution`` as mathematics, by the package math-verify, else 0.

    None where the solution itself cannot be parsed.
    """
    from math_verify import parse, verify

    # Its own time limits are alarms, which only a main thread can have; `reward_timeout` limits the whole.
    for name in ("math_verify.parser", "math_verify.grader"):
        logging.getLogger(name).addFilter(lambda record: "Timeout is disabled" not in record.getMessage())
    scores: list[float | None] = []
    for completion, right in zip(completions, column("math_verify", "solution", solution)):
        goal = parse(str(right), parsing_timeout=None) if right is not None else None
        if not goal:
            scores.append(None)
            continue
        found = parse(text_of(completion), parsing_timeout=None)
        scores.append(float(verify(goal, found, timeout_seconds=None)))
    return scores


def reasoning_gym(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    answer: Sequence[Any] | None = None,
    metadata: Sequence[Any] | None = None,
    **_: Any,
) -> list[float | None]:
    """The score, from 0 to 1, that the row's own task of the package reasoning-gym gives the completion's answer.

    The answer is what stands in ``<answer>``, else the whole completion, stripped. The row's ``metadata`` and
    ``answer`` are those of the task's entry (``hetero:reasoning-gym/NAME`` has them); None where there is no metadata.
    """
    import reasoning_gym as package

    scores: list[float | None] = []
    answers = column("reasoning_gym", "answer", answer)
    for prompt, completion, right, about in zip(
        prompts, completions, answers, column("reasoning_gym", "metadata", metadata)
    ):
        if about is None:
            scores.append(None)
            continue
        about = json.loads(about) if isinstance(about, str) else about
        name = about.get("source_dataset") if isinstance(about, dict) else None
        if name is None:
            raise DataError(f"reasoning_gym: metadata names no source_dataset: {about!r:.80}")
        entry = {
            "question": prompt if isinstance(prompt, str) else str(prompt[-1]["content"]),
            "answer": right,
            "metadata": about,
        }
        scores.append(float(package.get_score_answer_fn(name)(answer_of(text_of(completion)), entry)))
    return scores


def needs(package: str, name: str) -> Callable[[], None]:
    """A check that ``package`` can be found, for the reward ``name``."""

    def check() -> None:
        if importlib.util.find_spec(package) is None:
            raise RecipeError(
                f"reward_funcs: {name} needs the package {package.replace('_', '-')}, which is not installed; "
                "pip install 'hetero[verifiers]'"
            )

    return check
