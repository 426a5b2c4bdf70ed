"""Two ranks must equal one, for pairs and single answers, whatever the losses and the reference are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hetero.train.metrics import jsonl
from tests.multiprocess import spawn
from tests.train import preference_ranks, ranks
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


def test_an_adapter_on_two_ranks_equals_one(tmp_path: Path) -> None:
    """The adapter is switched off for the reference inside the pass that DDP watches."""
    keys = {"algorithm": "dpo", "use_peft": True, "lora_r": 4, "max_steps": 3, "learning_rate": 1e-2}
    path = str(write(tmp_path, pairs(8), **keys))
    two, one = tmp_path / "two", tmp_path / "one"
    spawn(ranks.whole_run, 2, args=[path, [f"output_dir={two}", "per_device_train_batch_size=2"]])
    ranks.whole_run(path, [f"output_dir={one}", "per_device_train_batch_size=4"])
    measured = ("step_time", "tokens_per_second", "memory_gib", "mfu")
    rows = [
        [{k: v for k, v in row.items() if k not in measured} for row in jsonl.read(run / "metrics.jsonl")]
        for run in (two, one)
    ]
    assert len(rows[0]) == 3
    for seen, alone in zip(*rows, strict=True):
        assert seen == pytest.approx(alone, rel=1e-4, abs=1e-5)


def _without_extremes(numbers: dict[str, Any]) -> dict[str, Any]:
    """A reward model's extremes are those of micro-batches, which differ."""
    return {name: value for name, value in numbers.items() if not name.endswith(("min_reward", "max_reward"))}
