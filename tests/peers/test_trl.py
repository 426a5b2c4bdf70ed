"""TRL's own trainers, unmodified, on emulated devices: its numbers there are those it has on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
GOLDEN = {
    **json.loads((ROOT / "tests" / "golden" / "trl_sft.json").read_text()),
    **json.loads((ROOT / "tests" / "golden" / "trl_grpo.json").read_text()),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON.exists(), reason="there is no .venv-peers; `make test-slow` makes it"),
]


@pytest.fixture(scope="module")
def ascend() -> dict[str, Any]:
    """What TRL's trainers gave on an emulated NPU."""
    command = [sys.executable, "-m", "hetero", "emulate", "ascend", "--", str(PYTHON)]
    program = [str(ROOT / "tests" / "peers" / "trl_on_device.py"), "npu", "sft", "grpo", "generate"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command + program, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULTS ")]
    return json.loads(line.removeprefix("RESULTS "))


def test_sft_trainer_has_the_golden_losses(ascend: dict[str, Any]) -> None:
    assert len(ascend["sft"]) == 6
    for setting, found in ascend["sft"].items():
        expected = GOLDEN["sft"][setting]
        assert found.pop("device") == "npu:0"
        for name, value in found.items():
            assert value == pytest.approx(expected[name], rel=1e-5), (setting, name)


def test_grpo_trainer_has_the_golden_losses(ascend: dict[str, Any]) -> None:
    assert set(ascend["grpo"]) == set(GOLDEN["grpo"])
    for setting, found in ascend["grpo"].items():
        expected = GOLDEN["grpo"][setting]
        # Positive and negative advantages nearly cancel: exact to float32's error in the terms, which are near 1.
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5, abs=1e-6), setting
        assert found["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-5), setting


def test_grpo_trainer_samples_and_trains(ascend: dict[str, Any]) -> None:
    found = ascend["generate"]
    assert found["device"] == "npu:0" and len(found["losses"]) == 2
    assert found["parameters_moved"] == found["parameters"]
    assert all(0 < length <= 16 for length in found["lengths"])
