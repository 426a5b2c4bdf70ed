import json
from pathlib import Path

import pytest

from hetero.train import report
from hetero.train.metrics import jsonl


def _log(run_dir: Path, rows: list[dict]) -> None:
    (run_dir / jsonl.NAME).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_curve_of_steps_evaluations_and_skipped_steps(tmp_path: Path) -> None:
    assert report.loss_curve(tmp_path) is None
    _log(
        tmp_path,
        [{"step": s, "loss": None if s == 3 else 5 / s} for s in range(1, 30)]
        + [{"step": 29, "eval_loss": 1.0}],
    )
    path = report.loss_curve(tmp_path)
    assert path is not None
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert path.stat().st_size > 5000


def test_smoothing_is_a_weighted_mean() -> None:
    assert report._smoothed((2.0,) * 50) == pytest.approx([2.0] * 50)
    smooth = report._smoothed(tuple(float(i % 2) for i in range(100)))
    assert smooth[0] == 0.0
    assert 0.4 < smooth[-1] < 0.7


def test_totals(tmp_path: Path) -> None:
    rows = [{"step": s, "loss": float(s), "step_time": 0.5, "num_tokens": 10 * s} for s in (1, 2)]
    _log(tmp_path, [*rows, {"step": 2, "eval_loss": 9.0}])
    assert report.totals(tmp_path, 7.0) == {
        "train_runtime": 7.0,
        "train_loss": 1.5,
        "train_steps_per_second": 2.0,
        "train_tokens_per_second": 20.0,
    }
    _log(tmp_path, [])
    assert report.totals(tmp_path, 1.0)["train_loss"] is None


def test_last_row_has_the_evaluation_of_its_step(tmp_path: Path) -> None:
    assert report.last_row(tmp_path) == {}
    _log(tmp_path, [{"step": 1, "loss": 3.0}, {"step": 1, "eval_loss": 4.0}, {"step": 2, "loss": 2.0}])
    assert report.last_row(tmp_path) == {"step": 2, "loss": 2.0}
    with (tmp_path / jsonl.NAME).open("a") as file:
        file.write('{"step": 2, "eval_loss": 2.5}\n')
    assert report.last_row(tmp_path) == {"step": 2, "loss": 2.0, "eval_loss": 2.5}
