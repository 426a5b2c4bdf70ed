"""What the ranks of tests/train/test_preference_ranks.py do; each runs this file in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hetero import comm
from hetero.train.data.sampler import Sampler
from hetero.train.evaluate import evaluate
from hetero.train.source import Windows
from tests.train.preferences import Trial


def steps(folder: str, jobs: dict[str, list[str]], size: int) -> dict[str, Any]:
    """Two steps and an evaluation for each job, a recipe of ``folder`` with overrides."""
    with comm.init("cpu") as ranks:
        return {
            job: _steps(Trial(Path(folder, job), *keys, comm=ranks, device=ranks.device), size)
            for job, keys in jobs.items()
        }


def _steps(trial: Trial, size: int) -> list[dict[str, float]]:
    ranks = trial.engine.comm
    sampler = Sampler(len(trial.examples), size, rank=ranks.rank, world_size=ranks.world_size, shuffle=False)
    source = Windows(trial.examples, sampler, 2)
    seen = [trial.numbers(trial.stepper(source.next_window(), 1e-3)) for _ in range(2)]
    return [*seen, evaluate(trial.model, trial.algorithm, trial.engine, trial.examples, size)]
