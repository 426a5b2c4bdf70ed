"""A recipe with ``--device=ascend`` on the emulated device: the CPU's losses, and all that a run leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hetero
from hetero.train import recipe, report
from hetero.train.data.builtin import arithmetic
from hetero.train.metrics import jsonl

pytestmark = pytest.mark.emulated("ascend")

FULL: dict[str, Any] = {}
LORA = {"use_peft": True, "lora_r": 4, "lora_dropout": 0.0, "learning_rate": 1e-2}
#: Roundings of another order grow with each step.
TOLERANCE = {"float32": 2e-4, "bfloat16": 2e-2}


@pytest.fixture
def make(tmp_path, monkeypatch):
    """``make(device, **keys)`` trains the tiny model on ten conversations and gives the run's folder."""
    monkeypatch.setattr(report, "loss_curve", lambda run_dir: None)
    data = tmp_path / "train.jsonl"
    rows = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a * (1 + i % 3)}]}
        for i, (q, a, _) in enumerate(arithmetic(10))
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(device: str, name: str, **keys: Any) -> Path:
        values = {
            "model_name_or_path": "hetero:tiny-qwen2",
            "dataset_name": str(data),
            "assistant_only_loss": True,
            "max_length": 64,
            "learning_rate": 1e-3,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 2,
            "max_steps": 4,
            "report_to": "none",
            "logging_steps": 1,
            "lr_scheduler_type": "constant",
            "output_dir": str(tmp_path / name),
        }
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps(values | keys))
        hetero.train.run(recipe.load(path, []), hetero.device(device))
        return tmp_path / name

    return run


def losses(run_dir: Path) -> list[float]:
    return [row["loss"] for row in jsonl.read(run_dir / "metrics.jsonl") if "loss" in row]


def weights(run_dir: Path) -> bytes:
    found = (run_dir / n for n in ("model.safetensors", "adapter_model.safetensors"))
    return next(p.read_bytes() for p in found if p.exists())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("keys", [FULL, LORA], ids=["full", "lora"])
def test_the_losses_of_the_cpu(make, keys, dtype):
    npu, cpu = (losses(make(device, device, dtype=dtype, **keys)) for device in ("ascend", "cpu"))
    assert len(npu) == 4 and npu[-1] < npu[0]
    assert npu == pytest.approx(cpu, rel=TOLERANCE[dtype])


@pytest.mark.parametrize(
    "keys",
    [{"neftune_noise_alpha": 5.0}, {**LORA, "lora_dropout": 0.3, "dtype": "bfloat16"}],
    ids=["full with noise", "lora with dropout, bf16"],
)
def test_resuming_is_bit_for_bit(make, keys):
    whole = make("ascend", "whole", max_steps=4, save_steps=2, **keys)
    make("ascend", "parts", max_steps=2, save_steps=2, **keys)
    parts = make("ascend", "parts", max_steps=4, save_steps=2, resume_from_checkpoint=True, **keys)
    assert losses(parts) == losses(whole) and weights(parts) == weights(whole)


def without_the_vendor() -> dict[str, str]:
    """The environment of a machine that has neither torch_npu nor CANN."""
    hidden = ("LD_LIBRARY_PATH", "PYTHONPATH", "TORCH_NPU_FALLBACK_CPU_DISABLE")
    kept = {k: v for k, v in os.environ.items() if k not in hidden}
    return {k: v for k, v in kept.items() if not k.startswith(("HETERO_", "ASCEND_"))}


ELSEWHERE = """
import importlib.util, sys
from pathlib import Path
import torch
assert importlib.util.find_spec("torch_npu") is None and torch._C._get_privateuse1_backend_name() != "npu"
import hetero
from hetero.train import recipe, report
report.loss_curve = lambda run_dir: None
values, steps = sys.argv[1:]
given = recipe.load(Path(values), [f"max_steps={steps}", "resume_from_checkpoint=true"])
print("steps", hetero.train.run(given, hetero.device("cpu")).steps)
"""


def test_a_run_moves_to_a_machine_without_the_vendors_package_and_back(make, tmp_path):
    run_dir = make("ascend", "run", max_steps=2, save_steps=2)
    for path in run_dir.rglob("*"):
        assert path.is_dir() or b"npu:0" not in path.read_bytes(), f"{path} names a device"
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "recipe.yaml"), "3"]
    done = subprocess.run(command, env=without_the_vendor(), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "steps 3" in done.stdout, done.stdout + done.stderr
    back = make("ascend", "run", max_steps=4, save_steps=2, resume_from_checkpoint=True)
    whole = make("ascend", "whole", max_steps=4)
    assert losses(back) == pytest.approx(losses(whole), rel=TOLERANCE["float32"])


def test_export_of_a_run_with_an_adapter(make, tmp_path):
    from hetero.train.export import export

    run_dir = make("ascend", "run", **LORA)
    export(run_dir, tmp_path / "merged", merge=True)
    assert (tmp_path / "merged" / "model.safetensors").is_file()


def test_what_ran_where_says_emulated(make, capsys):
    make("ascend", "run", max_steps=1)
    said = capsys.readouterr().out
    assert "emulated" in said and "npu" in said
