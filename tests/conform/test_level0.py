from types import SimpleNamespace

import pytest
import torch

from hetero.accelerator import Caps, Peak, Probe
from hetero.backends.cpu import CpuBackend
from hetero.backends.cpu.device import CpuDevice
from hetero.conform import level0


def failed(backend):
    return {r.name: r.detail for r in level0.failures(level0.run(backend))}


def test_the_cpu_passes_every_check():
    results = level0.run(CpuBackend())
    assert [r.status for r in results] == ["pass"] * 14, "\n".join(map(str, results))


def broken(**attributes):
    return type("BrokenBackend", (CpuBackend,), {"tables": "hetero.backends.cpu", **attributes})()


def with_device(**attributes):
    made = type("BrokenDevice", (CpuDevice,), attributes)
    return broken(device=lambda self, index: made(self, index))


def slow_probe(self, host):
    import time

    time.sleep(0.21)
    return CpuBackend.probe(self, host)


def importing_probe(self, host):
    import torch  # loaded long ago, which makes it no better

    assert torch
    return CpuBackend.probe(self, host)


@pytest.mark.parametrize(
    "backend, check, detail",
    [
        (broken(name="no name"), "attributes", "'no name'"),
        (broken(torch_types=("CUDA:0",)), "attributes", "'CUDA:0'"),
        (broken(torch_types=("CUDA:0",)), "identity", "CUDA"),
        (broken(api=(7, 0)), "API version", "upgrade hetero"),
        (broken(probe=lambda self, host: Probe("found")), "probe", "evidence is empty"),
        (broken(probe=lambda self, host: Probe("absent", evidence=("looked",))), "probe", "what to install"),
        (broken(probe=lambda self, host: Probe("broken", evidence=("looked",))), "probe", "must say why"),
        (broken(probe=slow_probe), "probe within 200 ms", "allowed are 200"),
        (broken(probe=importing_probe), "probe imports nothing", "torch"),
        (broken(launch_env=lambda self: {"A": 1}), "launch_env, comm, ops", "str to str"),
        (broken(comm=lambda self: "gloo"), "launch_env, comm, ops", "returned str"),
        (with_device(name=""), "identity", "must not be empty"),
        (with_device(memory=lambda self: SimpleNamespace(free=2, total=1)), "memory", "2 bytes free of 1"),
        (with_device(rng_state=lambda self: torch.zeros(3)), "RNG round trip", "float32"),
        (with_device(set_rng_state=lambda self, state: None), "RNG round trip", "other numbers"),
        (with_device(caps={"bf16": True}), "capabilities", "dict"),
        (with_device(caps=Caps(bf16=True)), "capabilities", "caps.bf16 is bool"),
        (with_device(caps=Caps(peaks={"bf16": 1e12})), "capabilities", "not Peak"),
        (with_device(explain=lambda self: "a device"), "trace, explain", "a device"),
    ],
)
def test_a_promise_that_is_not_kept_fails_its_own_check(backend, check, detail):
    found = failed(backend)
    assert check in found and detail in found[check], found


def test_targets_of_ops_must_exist():
    class NoModule(CpuBackend):
        def ops(self):
            return [SimpleNamespace(op="rms_norm", name="x", forward="hetero.no_such:f", backward=None)]

    assert "no module 'hetero.no_such'" in failed(NoModule())["launch_env, comm, ops"]


def test_a_check_that_raises_is_a_failure_not_a_crash():
    def raises(self):
        raise OSError("no such device")

    assert failed(with_device(memory=raises)) == {"memory": "OSError: no such device"}


def test_an_absent_vendor_skips_the_device_and_says_why():
    backend = broken(probe=lambda self, host: Probe("absent", evidence=("looked",), install="a card"))
    results = level0.run(backend)
    assert {r.detail for r in results if r.status == "skip"} == {"the vendor is absent here"}
    assert not level0.failures(results)


def test_peak_is_typed():
    good = with_device(caps=Caps(peaks={"bf16": Peak(1e12, "FLOP/s", "measured", "a run")}))
    assert "capabilities" not in failed(good)
