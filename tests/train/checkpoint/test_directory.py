import os
from pathlib import Path

import pytest

from hetero.errors import CheckpointError
from hetero.train.checkpoint import directory, files


def _commit(run_dir: Path, step: int) -> Path:
    with files.committing(directory.path_of(run_dir, step), step=step) as work:
        (work / "data").write_text(f"step {step} ")
    return directory.path_of(run_dir, step)


def test_order_is_by_step_not_by_clock_or_name(tmp_path: Path) -> None:
    for step in (100, 9, 20):
        _commit(tmp_path, step)
    os.utime(tmp_path / "checkpoint-9", (2e9, 2e9))
    (tmp_path / "checkpoint-200").mkdir()  # never committed
    (tmp_path / "checkpoint-x").mkdir()
    assert [step for step, _ in directory.committed(tmp_path)] == [9, 20, 100]
    assert directory.newest_sound(tmp_path) == tmp_path / "checkpoint-100"


def test_a_damaged_newest_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    _commit(tmp_path, 1)
    (_commit(tmp_path, 2) / "data").write_text("Step 2 ")
    with pytest.warns(UserWarning, match=r"checkpoint-2 is damaged: data has changed.*from checkpoint-1"):
        assert directory.newest_sound(tmp_path) == tmp_path / "checkpoint-1"


def test_all_damaged_is_an_error_and_none_is_none(tmp_path: Path) -> None:
    assert directory.newest_sound(tmp_path / "absent") is None
    assert directory.newest_sound(tmp_path) is None
    (_commit(tmp_path, 2) / "data").write_text("")
    with pytest.raises(CheckpointError, match="no checkpoint of this run is sound"):
        directory.newest_sound(tmp_path)


def test_prune_keeps_the_newest_committed(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        _commit(tmp_path, step)
    (tmp_path / "checkpoint-9").mkdir()  # somebody else's, without a manifest: not counted, not deleted
    directory.prune(tmp_path, None)
    assert len(directory.committed(tmp_path)) == 3
    directory.prune(tmp_path, 2)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint-2", "checkpoint-3", "checkpoint-9"]
