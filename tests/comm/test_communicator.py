"""The checks of ``checks.py`` in jobs of one, two and three ranks."""

from __future__ import annotations

import pytest

import hetero
from hetero.comm import CommError
from tests.comm import checks
from tests.multiprocess import Outcome, spawn


@pytest.fixture(scope="module", params=[2, 3], ids=["2 ranks", "3 ranks"])
def job(request: pytest.FixtureRequest) -> list[Outcome]:
    return spawn(checks.run_together, request.param, timeout=240)


@pytest.mark.parametrize("check", checks.TOGETHER, ids=lambda check: check.__name__)
def test_together(job: list[Outcome], check) -> None:
    for outcome in job:
        said = outcome.result.get(check.__name__, "not reached: an earlier check failed")
        assert said == "", f"rank {outcome.rank}: {said}"


def test_a_job_ends_quietly(job: list[Outcome]) -> None:
    for outcome in job:
        assert outcome.err == ""


@pytest.mark.parametrize("check", checks.ALONE, ids=lambda check: check.__name__)
def test_alone(check, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with hetero.comm.init("cpu") as comm:
        assert comm.group is None and comm.world_size == 1 and comm.rank == comm.local_rank == 0
        check(comm)
    with pytest.raises(CommError, match="closed"):
        comm.barrier()
