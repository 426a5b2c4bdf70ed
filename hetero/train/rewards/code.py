"""Rewards that run the completion: its Python, against the row's tests, in a sandbox."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from hetero.errors import DataError, RecipeError
from hetero.train.rewards.builtin import column, text_of
from hetero.train.sandbox import Job, Pool, available

_BLOCK = re.compile(r"^```[ \t]*(?:python3?|py)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE | re.IGNORECASE)


def code(completions: Sequence[Any], tests: Sequence[Any] | None = None, **_: Any) -> list[float | None]:
    """Share of the row's ``tests`` that pass after the completion's last Python block has run, from 0 to 1.

    ``tests`` is Python source, or a list of sources of which each counts by itself; None or an empty list: does not
    apply. Without a block in ``` the score is 0. The program has 5 s, 512 MiB, no network and no files of ours, in
    namespaces of its own (:mod:`hetero.train.sandbox`). That protects the machine, not the score: a program that
    looks for a way to pass its tests without solving the task, as humans would call it, may find one.

    Raises:
        DataError: the column ``tests`` is not there or holds something else.
        RolloutError: this system cannot isolate programs.
    """
    return _score(completions, column("code", "tests", tests), isolated=True)


def code_unsandboxed(
    completions: Sequence[Any], tests: Sequence[Any] | None = None, **_: Any
) -> list[float | None]:
    """:func:`code` without isolation: a program can do whatever you can. Only time and memory are limited."""
    return _score(completions, column("code_unsandboxed", "tests", tests), isolated=False)


def check() -> None:
    """Raise RecipeError where :func:`code` cannot work."""
    if why := available():
        raise RecipeError(
            f"reward_funcs: code: {why}. Name `code_unsandboxed` instead if the programs may do whatever you can, "
            "for example in a container that holds nothing else"
        )


def program_of(completion: Any) -> str | None:
    """The last block between ``` in a completion, None if it has none."""
    blocks = _BLOCK.findall(text_of(completion))
    return blocks[-1] if blocks else None


@cache
def _pool(isolated: bool) -> Pool:
    return Pool(isolated=isolated)


def _score(completions: Sequence[Any], tests: Sequence[Any], isolated: bool) -> list[float | None]:
    suites = [_suite(one) for one in tests]
    programs = [program_of(one) for one in completions]
    jobs = {i: Job(p, suites[i]) for i, p in enumerate(programs) if p is not None and suites[i]}
    outcomes = dict(zip(jobs, _pool(isolated).run(list(jobs.values()))))
    scores: list[float | None] = []
    for i, suite in enumerate(suites):
        passed = len(outcomes[i].passed) if i in outcomes else 0
        scores.append(passed / len(suite) if suite else None)
    return scores


def _suite(tests: Any) -> list[str]:
    suite = [tests] if isinstance(tests, str) else list(tests or ())
    if not all(isinstance(test, str) for test in suite):
        raise DataError(f"code: tests is Python source or a list of such, not {suite!r:.80}")
    return suite
