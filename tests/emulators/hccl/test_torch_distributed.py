"""torch.distributed's ``hccl`` on emulated devices: the checks of ``distributed.py`` on two, three and four ranks."""

from __future__ import annotations

import os
import signal
import time

import pytest
import torch

from tests.emulators.hccl import distributed
from tests.emulators.hccl.emulation import emulated
from tests.multiprocess import Outcome, spawn


@pytest.fixture(scope="module", params=[2, 3, 4], ids=["2 ranks", "3 ranks", "4 ranks"])
def outcomes(request: pytest.FixtureRequest) -> list[Outcome]:
    return spawn(distributed.run_all, request.param, timeout=280, env=emulated(devices=4), fresh=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", distributed.CHECKS, ids=lambda check: check.__name__)
def test_process_group(outcomes: list[Outcome], check) -> None:
    _said_nothing(outcomes, check)


@pytest.fixture(scope="module", params=[2, 4], ids=["2 ranks", "4 ranks"])
def refusals(request: pytest.FixtureRequest) -> list[Outcome]:
    env = emulated(devices=4) | {"TASK_QUEUE_ENABLE": "0"}
    return spawn(distributed.run_all, request.param, timeout=280, args=[True], env=env, fresh=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", distributed.REFUSALS, ids=lambda check: check.__name__)
def test_refusals(refusals: list[Outcome], check) -> None:
    _said_nothing(refusals, check)


def _said_nothing(outcomes: list[Outcome], check) -> None:
    for outcome in outcomes:
        assert outcome.result[check.__name__] == "", f"rank {outcome.rank}: {outcome.result[check.__name__]}"


def loses_a_rank() -> dict[str, object]:
    rank, _ = distributed.start()
    t = torch.ones(6).to("npu")
    torch.distributed.all_reduce(t)
    torch.npu.synchronize()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        torch.distributed.all_reduce(t)
        torch.npu.synchronize()
    except RuntimeError as error:
        return {"text": str(error), "seconds": time.monotonic() - begin}
    return {"text": "", "seconds": 0.0}


@pytest.mark.timeout(300)
def test_a_killed_rank_raises_on_the_others() -> None:
    # Otherwise torch_npu's watchdog ends the process a second after the error, as it would on hardware.
    env = emulated(devices=4) | {"TORCH_HCCL_ASYNC_ERROR_HANDLING": "0"}
    outcomes = spawn(loses_a_rank, 3, timeout=280, env=env, fresh=True, check=False)
    for rank in (0, 2):
        told = outcomes[rank].result
        assert told is not None, outcomes[rank]
        assert "error code is 507057" in told["text"] and told["seconds"] < 10
        assert "rank 1 (process" in told["text"] and "has died" in told["text"]
