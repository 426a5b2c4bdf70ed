"""Two ranks on two emulated devices, gradients summed by the vendor's plugin over the emulated HCCL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetero.train.data.builtin import arithmetic
from hetero.train.metrics import jsonl
from tests.backends.ascend import ranks
from tests.multiprocess import spawn

pytestmark = [pytest.mark.emulated("ascend"), pytest.mark.timeout(550)]


@pytest.fixture
def path(tmp_path):
    rows = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a * (1 + i % 3)}]}
        for i, (q, a, _) in enumerate(arithmetic(16))
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "model_name_or_path": "hetero:tiny-qwen2",
        "dataset_name": "train.jsonl",
        "max_length": 64,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "report_to": "none",
        "logging_steps": 1,
        "save_steps": 2,
        "shuffle_dataset": False,
        "max_steps": 4,
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(values))
    return tmp_path / "recipe.yaml"


def losses(run_dir: Path) -> list[float]:
    return [row["loss"] for row in jsonl.read(run_dir / "metrics.jsonl") if "loss" in row]


def trained(path, nproc, name, *overrides):
    to = path.parent / name
    given = [f"output_dir={to}", f"per_device_train_batch_size={4 // nproc}", *overrides]
    outcomes = spawn(ranks.whole_run, nproc, args=[str(path), given], timeout=240, fresh=True)
    assert any(kernel.endswith("=npu") for kernel in outcomes[0].result["kernels"])
    return to


@pytest.mark.parametrize(
    "keys", [[], ["use_peft=true", "lora_r=4", "lora_dropout=0", "learning_rate=1e-2"]], ids=["full", "lora"]
)
def test_two_ranks_equal_one(path, keys):
    one, two = (losses(trained(path, n, f"of-{n}", *keys)) for n in (1, 2))
    assert len(two) == 4 and two == pytest.approx(one, rel=1e-4)


def test_two_ranks_resume_bit_for_bit(path):
    whole = trained(path, 2, "whole")
    trained(path, 2, "parts", "max_steps=2")
    parts = trained(path, 2, "parts", "resume_from_checkpoint=true")
    assert losses(parts) == losses(whole)
    name = "model.safetensors"
    assert (parts / name).read_bytes() == (whole / name).read_bytes()
