"""The CPU as a device: what torch's ``torch.cpu`` module lacks, from the operating system."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetero.accelerator.device import Device, MemoryInfo

if TYPE_CHECKING:
    import torch

_CGROUP = Path("/sys/fs/cgroup")


class CpuDevice(Device):
    """The host. Work is done when the call returns: streams are empty, events are clock readings."""

    def __init__(self, backend: Any, index: int) -> None:
        super().__init__(backend, index)
        import torch

        self.torch = torch.device("cpu")  # torch tensors say "cpu", never "cpu:0"

    def memory(self) -> MemoryInfo:
        meminfo = _fields(Path("/proc/meminfo"))
        status = _fields(Path("/proc/self/status"))
        total, free = meminfo.get("MemTotal") or _physical(), meminfo.get("MemAvailable")
        limit = _number(_CGROUP / "memory.max")
        if limit is not None and total is not None and limit < total:
            used = _number(_CGROUP / "memory.current") or 0
            total, free = limit, min(free or limit, max(limit - used, 0))
        resident = status.get("VmRSS")
        return MemoryInfo(free, total, resident, resident, status.get("VmHWM") or _peak())

    def event(self, timing: bool = True) -> HostEvent:
        return HostEvent(timing)

    def synchronize(self) -> None:
        pass

    def rng_state(self) -> torch.Tensor:
        import torch

        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor) -> None:
        import torch

        torch.set_rng_state(state)

    def stream(self) -> Any:
        import torch

        return torch.cpu.Stream()


class HostEvent:
    """The part of ``torch.Event`` that makes sense on a CPU: a reading of the monotonic clock."""

    def __init__(self, timing: bool = True) -> None:
        self._timing = timing
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        self._at = time.perf_counter()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def elapsed_time(self, end: HostEvent) -> float:
        """Milliseconds from this event to ``end``."""
        if not (self._timing and end._timing):
            raise ValueError("both events must be made with timing=True")
        if self._at is None or end._at is None:
            raise ValueError("both events must be recorded before elapsed_time is called")
        return (end._at - self._at) * 1e3


def _fields(path: Path) -> dict[str, int]:
    """``Name: 123 kB`` lines of a proc file, in bytes; empty where there is no such file."""
    if not path.is_file():
        return {}
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


def _number(path: Path) -> int | None:
    """The number in a cgroup file; None where there is none ("max" is no limit)."""
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return int(text) if text.isdigit() else None


def _physical() -> int | None:
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    return os.sysconf(names[0]) * os.sysconf(names[1]) if all(n in os.sysconf_names for n in names) else None


def _peak() -> int:
    """Peak resident set by getrusage: KiB on Linux, bytes on macOS."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
