import json
from pathlib import Path

from hetero.train.metrics import jsonl


def test_one_line_a_row_and_no_nan(tmp_path: Path) -> None:
    sink = jsonl.JsonlSink(tmp_path)
    sink.write({"step": 1, "loss": 0.5})
    assert jsonl.read(tmp_path / jsonl.NAME) == [{"step": 1, "loss": 0.5}]  # on disk before the next step
    sink.write({"step": 2, "loss": float("nan"), "grad_norm": float("inf")})
    sink.close()
    lines = (tmp_path / jsonl.NAME).read_text().splitlines()
    assert json.loads(lines[1]) == {"step": 2, "loss": None, "grad_norm": None}


def test_truncation_drops_later_steps_and_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / jsonl.NAME
    path.write_text(
        '{"step": 1, "loss": 1}\n{"step": 2, "loss": 2}\n{"step": 2, "eval_loss": 3}\n{"step": 3, "l'
    )
    jsonl.truncate_after(path, 2)
    assert [row["step"] for row in jsonl.read(path)] == [1, 2, 2]
    assert path.read_text().endswith("\n")
    jsonl.truncate_after(path, 0)
    assert path.read_text() == ""
    jsonl.truncate_after(tmp_path / "absent", 0)
