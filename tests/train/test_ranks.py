"""Two gloo ranks must equal one process; and a killed process must leave a run that can go on."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import hetero
from hetero.errors import CheckpointError
from hetero.train import recipe, run
from hetero.train.data.builtin import arithmetic
from hetero.train.metrics import jsonl
from tests.multiprocess import spawn
from tests.train import ranks

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "trl_sft.json").read_text())["sft"]
KEYS = {
    "model_name_or_path": "hetero:tiny-qwen2",
    "dataset_name": "train.jsonl",
    "max_length": 256,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant",
    "neftune_noise_alpha": 5.0,
    "report_to": "none",
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 3,
    "max_steps": 4,
}
# 7 rows by 2 ranks x 1 row in windows of 3: 2 + 2 + 2, then one row for rank 0 and none for rank 1.
PARTIAL = {"rows": 7, "accumulation": 3, "windows": 2}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recipe on the data of the golden numbers."""
    folder = tmp_path_factory.mktemp("ranks")
    rows = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a * (1 + i % 3)}]}
        for i, (q, a, _) in enumerate(arithmetic(8))
    ]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "recipe.yaml").write_text(json.dumps(KEYS))
    return str(folder / "recipe.yaml")


@pytest.fixture(scope="module")
def stepped(path: str) -> dict[str, tuple[Any, Any]]:
    """What each of two ranks saw, by job."""
    jobs = {
        "golden": {"rows": 8, "size": 2, "accumulation": 2, "windows": 1},
        "partial": {**PARTIAL, "size": 1},
        "nan": {"rows": 8, "size": 2, "accumulation": 2, "windows": 2, "poison": 1},
    }
    one, other = spawn(ranks.steps, 2, args=[path, list(jobs.values())], timeout=250)
    return dict(zip(jobs, zip(one.result, other.result, strict=True), strict=True))


def _losses(run_dir: Path) -> list[float]:
    return [row["loss"] for row in jsonl.read(run_dir / "metrics.jsonl")]


def _weights(run_dir: Path) -> bytes:
    return (run_dir / "model.safetensors").read_bytes()


def test_two_ranks_equal_one(stepped: dict[str, Any]) -> None:
    one, other = stepped["golden"]
    assert one == other
    assert one[0] == pytest.approx({**GOLDEN["nll_bs4_ga2"], "applied": True}, rel=1e-6)


def test_partial_windows_and_a_rank_without_rows(stepped: dict[str, Any], path: str) -> None:
    one, other = stepped["partial"]
    assert one == other
    for two, single in zip(one, ranks.steps(path, [{**PARTIAL, "size": 2}])[0], strict=True):
        assert two == pytest.approx(single, rel=1e-6)


def test_a_nan_on_one_rank_skips_the_step_on_all(stepped: dict[str, Any]) -> None:
    one, other = stepped["nan"]
    assert one == other
    assert [seen["applied"] for seen in one] == [False, True]
    assert one[1] == pytest.approx({**GOLDEN["nll_bs4_ga2"], "applied": True}, rel=1e-6)


@pytest.mark.slow
def test_two_ranks_stop_together_and_resume_bit_for_bit(path: str, tmp_path: Path) -> None:
    def go(*overrides: str, **more: Any) -> list[Any]:
        args = [path, [*overrides], more.get("signal_at")]
        return [outcome.result for outcome in spawn(ranks.whole_run, 2, args=args, timeout=250)]

    whole, parts = f"output_dir={tmp_path / 'whole'}", f"output_dir={tmp_path / 'parts'}"
    assert go(whole) == [{"steps": 4, "exit_code": 0}] * 2
    # The signal reaches rank 1 alone; rank 0 learns of it with the same step's sums.
    assert go(parts, signal_at=[1, 1, "SIGTERM"]) == [{"steps": 2, "exit_code": 143}] * 2
    refused, also = go(parts)
    assert refused == also
    assert (refused["error"], "an unfinished run" in refused["message"]) == ("CheckpointError", True)
    assert go(parts, "resume_from_checkpoint=true") == [{"steps": 4, "exit_code": 0}] * 2
    assert len(_losses(tmp_path / "whole")) == 4
    assert _losses(tmp_path / "parts") == _losses(tmp_path / "whole")
    assert _weights(tmp_path / "parts") == _weights(tmp_path / "whole")
    with pytest.raises(CheckpointError, match=r"written by 2 process\(es\) and this run has 1"):
        run(recipe.load(Path(path), [parts, "resume_from_checkpoint=true"]), hetero.device("cpu"))


def test_a_rank_killed_in_the_backward_pass_is_named_by_the_other(path: str, tmp_path: Path) -> None:
    args = [path, [f"output_dir={tmp_path / 'run'}", "gradient_accumulation_steps=1"]]
    other, killed = spawn(ranks.killed_in_backward, 2, args=args, check=False, timeout=250)
    assert killed.code == -signal.SIGKILL
    assert other.result["error"] == "PeerLost"
    assert "lost rank 1 during the sum of gradients over ranks, number " in other.result["message"]


def test_killed_and_resumed_equals_never_killed(path: str, tmp_path: Path) -> None:
    def go(name: str, *overrides: str) -> None:
        keys = ["save_steps=1", f"output_dir={tmp_path / name}", *overrides]
        run(recipe.load(Path(path), keys), hetero.device("cpu"))

    args = [path, ["save_steps=1", f"output_dir={tmp_path / 'parts'}"], [0, 2, "SIGKILL"]]
    (killed,) = spawn(ranks.whole_run, 1, args=args, check=False, timeout=250)
    assert killed.code == -signal.SIGKILL
    assert len(_losses(tmp_path / "parts")) == 2
    assert not (tmp_path / "parts" / "model.safetensors").exists()
    go("parts", "resume_from_checkpoint=true")
    go("whole")
    assert _losses(tmp_path / "parts") == _losses(tmp_path / "whole")
    assert _weights(tmp_path / "parts") == _weights(tmp_path / "whole")
