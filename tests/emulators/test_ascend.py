"""hetero on the emulated device: what it says of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

import hetero
from hetero import ops
from hetero.emulators import running
from hetero.train.machine import Machine

HETERO = [sys.executable, "-c", "from hetero.cli.main import main; main()"]


@pytest.mark.emulated("ascend")
def test_a_device_says_that_it_is_emulated():
    device = hetero.device("ascend")
    assert running() == "ascend" and device.emulated and not hetero.device("cpu").emulated
    assert device.name == "Ascend910B1 (emulated)" and device.arch == "a2"
    assert "(emulated)" in device.explain() and "there is no chip" in device.explain()


@pytest.mark.emulated("ascend")
def test_what_ran_where_and_why_say_emulated():
    x, weight = torch.ones(2, 8).npu(), torch.ones(8).npu()
    with ops.use("rms_norm=reference"):
        assert "on ascend:0 (emulated): reference" in str(ops.explain("rms_norm", x, weight, eps=1e-6))
        ops.rms_norm(x, weight, eps=1e-6)
    assert "reference (float32, emulated" in ops.placement_summary()


@pytest.mark.parametrize("emulated", [False, True])
def test_no_utilisation_is_taken_from_an_emulator(emulated):
    model = torch.nn.Embedding(8, 8)
    model.get_input_embeddings = model.get_output_embeddings = lambda: model
    device = SimpleNamespace(
        emulated=emulated,
        caps=SimpleNamespace(peak=lambda name: SimpleNamespace(value=1e12)),
        memory=lambda: SimpleNamespace(peak=1, allocated=1),
    )
    assert ("mfu" in Machine(model, device, 1).numbers(SimpleNamespace(tokens=8), 1.0)) is not emulated


def test_hetero_emulate_runs_a_users_program_and_says_nothing_else():
    code = "import torch; print(torch.npu.device_count(), torch.npu.get_device_name(0))"
    command = [*HETERO, "emulate", "ascend", "--devices", "5", "--soc", "Ascend910B3", "--"]
    done = subprocess.run(
        [*command, sys.executable, "-c", code], capture_output=True, text=True, timeout=280, cwd="/"
    )
    assert done.stdout == "5 Ascend910B3\n", done.stderr


def test_hetero_emulate_in_the_environment_turns_hetero_s_own_commands():
    env = {**os.environ, "HETERO_EMULATE": "ascend", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*HETERO, "doctor", "--json"], env=env, capture_output=True, text=True, timeout=280)
    report = json.loads(done.stdout)
    (ascend,) = (row for row in report["backends"] if row["name"] == "ascend")
    assert [d["emulated"] for d in ascend["devices"]] == [True, True], ascend
    assert report["environment"]["env"]["HETERO_EMULATE"] == "ascend"
    assert any("emulator" in line for line in ascend["evidence"])
