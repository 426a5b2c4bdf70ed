"""Which instruction set the CPU kernels use. The one reader of ``HETERO_CPU_ISA``."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path

from hetero.errors import BackendError

#: Best first; each needs all of its flags.
LEVELS = {
    "avx512": frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"}),
    "avx2": frozenset({"avx2", "fma"}),
    "generic": frozenset(),
}


@cache
def cpuinfo() -> str:
    """Text of ``/proc/cpuinfo``; empty where the system has none."""
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def flags(text: str) -> frozenset[str]:
    """Feature flags of the first processor in ``cpuinfo`` text (x86 "flags", Arm "Features")."""
    match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return frozenset(match[1].split()) if match else frozenset()


def model_name(text: str) -> str:
    """Model name in ``cpuinfo`` text; empty where it states none."""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def supported(present: frozenset[str]) -> list[str]:
    """Levels that a CPU with these flags can run, best first."""
    return [level for level, needs in LEVELS.items() if needs <= present]


def arch(level: str) -> str:
    """Name of ``level`` in conformance records: "generic" means other instructions on another kind of machine."""
    machine = platform.machine()
    return level if level != "generic" or machine in ("x86_64", "AMD64") else f"generic-{machine}"


def detect() -> str:
    """The level in use: ``HETERO_CPU_ISA`` where set, else the best this CPU can run that the kernels are proven on.

    A level that no conformance record covers (on another kind of machine than ours, say) is used once it has one:
    ``HETERO_CPU_ISA=avx512 hetero conform --record``.

    Raises:
        BackendError: ``HETERO_CPU_ISA`` names no level, or one that would crash on this CPU.
    """
    able = supported(flags(cpuinfo()))
    wanted = os.environ.get("HETERO_CPU_ISA")
    if not wanted:
        from hetero.ops import conformance  # imports torch, which listing backends must not

        proven = conformance.archs("cpu")
        return next((level for level in able if arch(level) in proven), able[0])
    if wanted not in able:
        known = "this CPU cannot run it" if wanted in LEVELS else "there is no such level"
        raise BackendError(f"HETERO_CPU_ISA={wanted}: {known}; choose from {', '.join(able)}")
    return wanted
