"""The device as hetero shows it, on the emulator: identity, float64, random numbers, conformance as a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from hetero import ops
from hetero.accelerator import device
from hetero.backends.ascend import backend
from hetero.conform import level0
from hetero.errors import OpError

pytestmark = pytest.mark.emulated("ascend")


@pytest.fixture
def npu():
    return device("ascend")


def test_it_is_the_chip_by_name_and_says_that_it_is_none(npu):
    assert npu.arch == "a2" and npu.name == "Ascend910B1 (emulated)" and npu.emulated
    assert npu.caps.bf16 and npu.caps.cores.value == 48
    assert not npu.caps.peaks, "no speed is taken from an emulated device"


def test_level_0(npu):
    results = level0.run(backend)
    assert [str(r) for r in results if r.status != "pass"] == []


@pytest.mark.emulated("ascend", soc="Ascend910A")
def test_older_chips_get_none_of_the_vendors_fused_operators(npu):
    assert npu.arch == "a1"
    x = torch.zeros(4, 8, device=npu.torch)
    decision = ops.explain("rms_norm", x).as_dict()["forward"]
    assert decision["chosen"] == "reference"
    reason = next(v["reason"] for v in decision["trail"] if v["impl"] == "npu")
    assert "bf16" in reason and "910B1" in reason


def test_float64_is_refused_not_computed_in_float32(npu):
    """`.to(torch.float64)` of an NPU tensor silently gives float32; a float64 tensor itself can be there."""
    x = torch.ones(2, 8, dtype=torch.float64).to(npu.torch)
    if x.dtype == torch.float32:
        pytest.skip("this torch_npu makes no float64 tensor at all")
    with pytest.raises(OpError, match="has no float64"):
        ops.rms_norm(x)


def test_random_numbers_are_restored(npu):
    torch.manual_seed(3)
    first = torch.rand(5, device=npu.torch).cpu()
    state = npu.rng_state()
    second = torch.rand(5, device=npu.torch).cpu()
    npu.set_rng_state(state)
    assert torch.equal(torch.rand(5, device=npu.torch).cpu(), second) and not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(5, device=npu.torch).cpu(), first)


def test_what_training_needs_is_set(npu):
    assert os.environ["HCCL_CONNECT_TIMEOUT"]
    both = ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    assert sum(name in os.environ for name in both) == 1
    import torch_npu

    assert torch_npu._C._npu_getOption("ALLOW_INTERNAL_FORMAT") == b"disable"
    assert torch_npu._C._npu_getOption("jitCompile") == b"disable"


def test_ops_compile_into_one_graph(npu):
    x = torch.randn(4, 32, device=npu.torch, requires_grad=True)
    weight = torch.ones(32, device=npu.torch, requires_grad=True)
    q = torch.randn(1, 2, 6, 16, device=npu.torch, requires_grad=True)

    def loss(x, weight, q):
        y = ops.swiglu(ops.rms_norm(x, weight), x)
        return y.sum() + ops.attention(q, q, q, scale=0.25, causal=True).sum()

    eager = torch.autograd.grad(loss(x, weight, q), (x, weight, q))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    traced = torch.autograd.grad(compiled(x, weight, q), (x, weight, q))
    for a, b in zip(traced, eager):
        torch.testing.assert_close(a.cpu(), b.cpu())


def test_conform_from_the_command_line(tmp_path):
    command = [sys.executable, "-m", "hetero", "conform", "--backend", "ascend", "--json", "--op", "rms_norm"]
    command += ["--record", "--to", str(tmp_path / "records.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["emulated"] and not any(c["status"] == "fail" for c in said["cases"]) and said["cases"]
    assert {c["status"] for c in said["checks"]} == {"pass"}
    assert '"arch": "a2 (emulated)"' in (tmp_path / "records.json").read_text()
