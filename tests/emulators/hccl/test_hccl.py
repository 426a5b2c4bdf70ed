"""Emulated HCCL through its C interface: the checks of ``checks.py`` on two, three and four ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulators.hccl import checks, job
from tests.emulators.hccl.job import Outcome


@pytest.fixture(scope="module", params=[2, 3, 4], ids=["2 ranks", "3 ranks", "4 ranks"])
def outcomes(request: pytest.FixtureRequest, libraries: Path) -> list[Outcome]:
    return job.run(checks.run_all, request.param, libraries, timeout=150)


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_collectives(outcomes: list[Outcome], check) -> None:
    for outcome in outcomes:
        said = outcome.result.get(check.__name__, "not reached: an earlier check failed")
        assert said == "", f"rank {outcome.rank}: {said}"


def test_a_job_says_nothing_but_what_failed(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        for line in outcome.out.splitlines():
            assert line.startswith("emulated HCCL: ") and "hardware would hang" in line
