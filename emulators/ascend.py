"""The Ascend emulator: the vendor's torch_npu over libraries of our own in place of CANN's."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetero.accelerator.host import Host
from hetero.emulators import build, torch_npu
from hetero.emulators.registry import Emulator, Setting
from hetero.errors import EmulatorError

_SOURCES = Path(__file__).parent / "cann"
#: What torch_npu is linked with and CANN has as libraries of their own; here one file has all the names.
_RUNTIME_ALIASES = (
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libacl_tdt_channel.so",
    "libmspti.so",
)
#: torch_npu's own look at CANN's folder wants these to be there; the operators' kernels and compilers are not.
_FILES = (("runtime", None), ("compiler", None), ("opp", None))

_SETTINGS = {
    name: Setting(f"HETERO_CANN_{name.upper()}", text)
    for name, text in {
        "devices": "devices of the machine, 1 to 8 [default: 2]",
        "memory": "memory of each device, such as 512MiB [default: 4GiB]",
        "soc": "name of the SoC [default: Ascend910B1]",
        "faults": "faults to inject, such as oom@5 or late:HcclAllReduce@2:1.5",
        "delay": "microseconds each stream task waits before it runs [default: 0]",
        "races": "1: unordered accesses are errors; report: lines on stderr [default: 0]",
        "coverage": "file that gets the names of the operators that ran",
    }.items()
}


def target(npu: torch_npu.TorchNpu) -> build.Target:
    """The emulated CANN, built against the headers in ``npu``'s wheel."""
    system = tuple(
        str(p) for p in (npu.includes.parent, npu.includes / "acl" / "inc", npu.includes / "hccl" / "inc")
    )
    common: dict[str, Any] = {"system": system}
    return build.Target(
        "ascend",
        "the emulated CANN",
        _SOURCES,
        (
            build.Library(
                "libascendcl.so",
                ("runtime/*.cpp",),
                includes=("include",),
                links=("-lpthread", "-ldl"),
                aliases=_RUNTIME_ALIASES,
                **common,
            ),
            build.Library(
                "libopapi.so",
                ("opapi/*.cpp",),
                includes=("include",),
                flags=("-std=c++20",),
                links=("-lascendcl",),
                torch=True,
                precompiled="opapi/operator.h",
                **common,
            ),
            build.Library(
                "libhccl.so",
                ("hccl/*.cpp",),
                includes=("include",),
                links=("-lascendcl", "-lpthread", "-lrt"),
                aliases=("libhcomm.so",),
                **common,
            ),
        ),
        (("torch_npu", npu.version),),
        (*_FILES, ("emulator.json", '{"emulates": "CANN", "by": "hetero"}\n')),
    )


class AscendEmulator(Emulator):
    """See the module."""

    name = "ascend"
    about = "Huawei Ascend NPUs: the torch_npu wheel, unmodified, over an emulated CANN"
    settings = _SETTINGS

    def prepare(self, *, wheel: Path | None = None, warnings: bool = False) -> Path:
        if platform.system() != "Linux":
            raise EmulatorError(f"torch_npu is made for Linux, this is {platform.system()}")
        if given := os.environ.get("HETERO_EMULATOR_HOME"):
            if not Path(given, "lib64", "libascendcl.so").exists():
                raise EmulatorError(f"HETERO_EMULATOR_HOME={given}: there is no lib64/libascendcl.so in it")
            return Path(given)
        return build.build(target(torch_npu.find(wheel)), warnings=warnings)

    def active(self, host: Host) -> bool:
        return host.emulated(host.library("libascendcl.so"))

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        home = self.prepare()
        npu = torch_npu.find()
        changed = {
            "LD_LIBRARY_PATH": _first(str(home / "lib64"), env.get("LD_LIBRARY_PATH", "")),
            # torch_npu prints a warning on stdout without them.
            "ASCEND_HOME_PATH": str(home),
            "ASCEND_OPP_PATH": str(home / "opp"),
            # Warnings, which only the emulator gets: they name an operator that torch_npu does not find.
            "ASCEND_GLOBAL_LOG_LEVEL": env.get("ASCEND_GLOBAL_LOG_LEVEL", "2"),
            # An operator that the emulator lacks must be an error, not run on the CPU without a word.
            "TORCH_NPU_FALLBACK_CPU_DISABLE": env.get("TORCH_NPU_FALLBACK_CPU_DISABLE", "1"),
        }
        if npu.side:
            changed["PYTHONPATH"] = _first(str(npu.folder), env.get("PYTHONPATH", ""))
        return changed

    def coverage(self, ran: frozenset[str]) -> list[dict[str, Any]]:
        implemented = _operators(self.prepare() / "lib64" / "libopapi.so")
        looked_up = _operators(torch_npu.find().folder / "torch_npu" / "lib" / "libtorch_npu.so")
        return [
            {
                "operator": name,
                "looked_up": name in looked_up,
                "implemented": name in implemented,
                "ran": name in ran,
            }
            for name in sorted(looked_up | implemented)
        ]


def _operators(library: Path) -> frozenset[str]:
    """Names of the operators in ``library``: it has both names of each, to look them up by or to be found by."""
    names = {m[1].decode() for m in re.finditer(rb"\0(aclnn[A-Z]\w+)(?=\0)", library.read_bytes())}
    return frozenset(name for name in names if f"{name}GetWorkspaceSize" in names)


def _first(entry: str, path: str) -> str:
    """``path`` with ``entry`` in front, once."""
    return os.pathsep.join([entry, *(p for p in path.split(os.pathsep) if p and p != entry)])


EMULATOR = AscendEmulator()
