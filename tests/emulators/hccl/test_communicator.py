"""hetero's communicator over ``hccl`` on emulated devices: the communicator's own checks, on two and three ranks.

Three is a number of ranks for which torch_npu does not document all_gather_into_tensor and reduce_scatter_tensor.
"""

from __future__ import annotations

import pytest

from tests.comm import checks
from tests.emulators.hccl.emulation import emulated
from tests.multiprocess import Outcome, spawn


@pytest.fixture(scope="module", params=[2, 3], ids=["2 ranks", "3 ranks"])
def job(request: pytest.FixtureRequest) -> list[Outcome]:
    env = emulated(devices=4)
    return spawn(checks.run_together, request.param, args=["ascend"], timeout=280, env=env, fresh=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", checks.TOGETHER, ids=lambda check: check.__name__)
def test_together(job: list[Outcome], check) -> None:
    for outcome in job:
        said = outcome.result.get(check.__name__, "not reached: an earlier check failed")
        assert said == "", f"rank {outcome.rank}: {said}"
