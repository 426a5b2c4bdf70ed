"""Two ranks must equal one, for pairs and single answers, whatever the losses and the reference are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.multiprocess import spawn
from tests.train import preference_ranks
from tests.train.preferences import judged, pairs, write

# 7 rows by 2 ranks x 1 row in windows of 2: 2 + 2, then 2 + 1; by 1 rank x 2 rows the same windows.
JOBS = {
    "dpo": ["loss_type=[sigmoid,ipo,sft]", "loss_weights=[1,0.2,0.5]"],
    "dpo-cached": ["precompute_ref_log_probs=true"],
    "kto": [],
    "kto-cached": ["precompute_ref_log_probs=true"],
    "rm": ["center_rewards_coefficient=0.01"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    for job in JOBS:
        algorithm = job.split("-")[0]
        (folder / job).mkdir()
        rows = judged(7) if algorithm == "kto" else pairs(7)
        keys = {} if algorithm == "rm" else {"ref_cache_dir": str(folder / "cache")} if "-" in job else {}
        write(folder / job, rows, algorithm=algorithm, **keys)
    return folder


def test_two_ranks_equal_one(folder: Path) -> None:
    jobs = {f"{job}/recipe.yaml": keys for job, keys in JOBS.items()}
    one, other = (outcome.result for outcome in spawn(preference_ranks.steps, 2, args=[str(folder), jobs, 1]))
    assert one == other
    single = preference_ranks.steps(str(folder), jobs, 2)
    for job, seen in one.items():
        for step, (two, alone) in enumerate(zip(seen, single[job], strict=True)):
            two, alone = (_without_extremes(numbers) for numbers in (two, alone))
            assert two == pytest.approx(alone, rel=1e-5, abs=2e-6), (job, step)
    assert [len(list(path.iterdir())) for path in (folder / "cache").iterdir()] == [1, 1]


def _without_extremes(numbers: dict[str, Any]) -> dict[str, Any]:
    """A reward model's extremes are those of micro-batches, which differ."""
    return {name: value for name, value in numbers.items() if not name.endswith(("min_reward", "max_reward"))}
