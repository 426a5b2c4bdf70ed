"""acme accelerators for hetero. README.md lists what to fill in, in which order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hetero.accelerator import Backend, CommSpec, Host, Identity, Probe
from hetero.accelerator.backend import PLACEHOLDER

if TYPE_CHECKING:
    from hetero.accelerator import Device
    from hetero.ops import Impl


class AcmeBackend(Backend):
    """acme. A placeholder on the CPU's memory, until ``torch_types`` names the real device type."""

    name = "acme"
    api = (1, 0)  # of the plugin interface this was written against
    torch_types = ("cpu",)

    def probe(self, host: Host) -> Probe:
        version = host.package("torch_acme")
        evidence = (
            f"Python package torch_acme: {version or 'not installed'}",
            f"device nodes: {', '.join(host.glob('/dev/acme*')) or 'no /dev/acme*'}",
            "placeholder: computes on the CPU",
        )
        return Probe("found", score=PLACEHOLDER, evidence=evidence, install="the driver of acme, and torch_acme")

    def device_count(self) -> int:
        return 1

    def device(self, index: int) -> Device:
        from hetero.backends.cpu.device import CpuDevice

        return CpuDevice(self, index)

    def identity(self, index: int) -> Identity:
        return Identity(name="acme placeholder", arch="placeholder")

    def comm(self) -> CommSpec | None:
        return CommSpec("gloo", library="gloo")

    def ops(self) -> Iterable[Impl]:
        return ()


backend = AcmeBackend()
