"""The deliberately wrong kernels, compiled once for each state of the sources."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from hetero.emulators import ascendc
from hetero.emulators.build import Library, Target, build


@pytest.fixture(scope="session")
def wrong() -> ctypes.CDLL:
    here = Path(__file__).parent.relative_to(ascendc.ROOT)
    core = (f"emulators/ascendc/src/{name}.cpp" for name in ("machine", "launch", "launch_host"))
    library = Library(
        "libwrong_kernels.so", (f"{here}/wrong_kernels.cpp", *core), ("emulators/ascendc/include",)
    )
    folder = build(Target("ascendc-wrong", "kernels that are wrong", ascendc.ROOT, (library,)))
    loaded = ctypes.CDLL(str(folder / "lib64" / library.name))
    loaded.run_kernel.restype = loaded.kernel_name.restype = ctypes.c_char_p
    loaded.output_at.restype = ctypes.c_float
    return loaded


@pytest.fixture(scope="session")
def run(wrong: ctypes.CDLL) -> Callable[..., str]:
    """``run(name, blocks=2)``: what the emulated core said of the kernel; empty when nothing was wrong."""
    return lambda name, blocks=2: wrong.run_kernel(name.encode(), blocks).decode()
