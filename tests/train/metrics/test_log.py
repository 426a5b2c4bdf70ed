from pathlib import Path
from typing import Any

import pytest

from hetero.errors import RecipeError
from hetero.train.metrics import MetricLog, jsonl


class Memory:
    def __init__(self, every_step: bool, fail_at: int = 0) -> None:
        self.every_step, self.fail_at = every_step, fail_at
        self.steps: list[int] = []

    def write(self, row: dict[str, Any]) -> None:
        if row["step"] == self.fail_at:
            raise OSError(28, "No space left on device")
        self.steps.append(row["step"])

    def close(self) -> None:
        self.steps.append(-1)


def test_cadence() -> None:
    every, some = Memory(True), Memory(False)
    log = MetricLog([every, some], 3)
    for step in range(1, 8):
        log.write({"step": step}, always=step == 7)
    log.close()
    assert every.steps == [1, 2, 3, 4, 5, 6, 7, -1]
    assert some.steps == [1, 3, 6, 7, -1]


def test_a_full_disk_drops_the_sink_with_one_warning() -> None:
    bad, good = Memory(True, fail_at=2), Memory(True)
    log = MetricLog([bad, good], 1)
    log.write({"step": 1})
    with pytest.warns(UserWarning, match=r"Memory cannot write any more and is dropped: .*No space left"):
        log.write({"step": 2})
    log.write({"step": 3})
    assert (bad.steps, good.steps) == ([1], [1, 2, 3])


def test_unknown_reporter(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="report_to: 'wandb' is not known; there are: tensorboard"):
        MetricLog.open(tmp_path, ["wandb"], 1)
    assert not (tmp_path / jsonl.NAME).exists()


def test_tensorboard_scalars(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = MetricLog.open(tmp_path, ["none", "tensorboard"], 1)
    log.write({"step": 1, "loss": 2.5, "learning_rate": 0.1})
    log.write({"step": 2, "eval_loss": 1.5})
    log.close()
    events = EventAccumulator(str(tmp_path / "runs"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"train/loss", "train/learning_rate", "eval/loss"}
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(1, 2.5)]
