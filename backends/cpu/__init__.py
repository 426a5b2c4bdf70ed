"""The CPU: always there, the reference for everything else, and where hetero can be tried by anyone."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hetero.accelerator.backend import HOST, Backend, CommSpec, Identity, Probe
from hetero.accelerator.caps import Cap, Caps
from hetero.accelerator.host import Host
from hetero.backends.cpu import isa

if TYPE_CHECKING:
    from hetero.accelerator.device import Device
    from hetero.ops import Impl


class CpuBackend(Backend):
    """One device, ``cpu:0``: all cores that this process may run on."""

    name = "cpu"
    torch_types = ("cpu",)
    also_called = ("host", "x86", "x86_64", "arm64")

    def probe(self, host: Host) -> Probe:
        model = isa.model_name(host.read("/proc/cpuinfo") or "")
        evidence = (f"{model or platform.machine()}, {cores()} core(s) for this process",)
        return Probe("found", score=HOST, evidence=evidence, versions={"torch": host.torch_version})

    def device_count(self) -> int:
        return 1

    def device(self, index: int) -> Device:
        from hetero.backends.cpu.device import CpuDevice

        return CpuDevice(self, index)

    def identity(self, index: int) -> Identity:
        name = isa.model_name(isa.cpuinfo()) or platform.processor() or platform.machine()
        return Identity(name, isa.arch(isa.detect()))

    def caps(self, index: int) -> Caps:
        flags = isa.flags(isa.cpuinfo())
        return self.table().caps(
            self.identity(index).name,
            bf16=_half("bf16", flags & {"avx512_bf16", "amx_bf16", "bf16"}),
            fp16=_half("fp16", flags & {"avx512_fp16", "amx_fp16", "fphp"}),
            compile_backend=_compile_backend(),
        )

    def comm(self) -> CommSpec:
        return CommSpec(
            "gloo",
            library="gloo",
            reduce_dtypes=("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
            source="torch.distributed documentation, backends",
        )

    def ops(self) -> Iterable[Impl]:
        from hetero.backends.cpu.ops import impls

        return impls()


def cores() -> int:
    """Cores that this process may run on, which a container may set below the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _half(name: str, units: set[str]) -> Cap:
    if units:
        return Cap("yes", why=f"this CPU has {', '.join(sorted(units))}", source="/proc/cpuinfo")
    why = f"this CPU has no {name} units: torch computes in float32 and rounds"
    return Cap("emulated", why=why, source="/proc/cpuinfo")


def _compile_backend() -> Cap:
    compiler = os.environ.get("CXX") or next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))), None)
    if compiler is None:
        return Cap("no", why="torch.compile on a CPU needs a C++ compiler and none is on PATH")
    return Cap("yes", value="inductor", why=f"with {compiler}")


backend = CpuBackend()
