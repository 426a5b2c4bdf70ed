"""The C++ compiler, and where the installed torch has its headers and libraries. Torch is not imported."""

from __future__ import annotations

import functools
import importlib.util
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hetero.accelerator.host import Host
from hetero.errors import EmulatorError


@dataclass(frozen=True)
class Compiler:
    """How to call it, and what it says it is."""

    command: tuple[str, ...]
    version: str

    @property
    def clang(self) -> bool:
        return "clang" in self.version


@functools.cache
def compiler() -> Compiler:
    """``$CXX``, else g++, c++ or clang++.

    Raises:
        EmulatorError: there is none, or it does not start.
    """
    given = os.environ.get("CXX")
    command = shlex.split(given) if given else [c for c in ("g++", "c++", "clang++") if shutil.which(c)][:1]
    if not command:
        raise EmulatorError(
            "an emulator is built on first use and there is no C++ compiler: install one "
            "(Debian, Ubuntu: apt install g++), or name it with CXX=..."
        )
    try:
        said = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmulatorError(f"the C++ compiler {shlex.join(command)!r} does not run: {error}") from error
    return Compiler(tuple(command), said.splitlines()[0] if said else shlex.join(command))


def torch_version() -> str:
    """Full version of the installed torch, local label included; empty where there is none."""
    if importlib.util.find_spec("torch") is None:
        return ""
    return Host(search=(str(torch_folder().parent),)).torch_version


@functools.cache
def torch_folder() -> Path:
    """Folder of the installed torch, also where an emulator's own stands before it.

    Raises:
        EmulatorError: torch is not installed.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise EmulatorError("torch is not installed, and emulators are built against it")
    return Path(spec.origin).resolve().parent


def torch_includes() -> tuple[Path, Path]:
    """Torch's include folders, of its libraries and of its C++ interface."""
    include = torch_folder() / "include"
    return include, include / "torch" / "csrc" / "api" / "include"


def torch_libraries(python: bool) -> tuple[str, ...]:
    """Linker flags for torch. No path is stored: in a process that uses the result torch is loaded already."""
    more = ("-ltorch_python",) if python else ()
    return (f"-L{torch_folder() / 'lib'}", *more, "-ltorch", "-ltorch_cpu", "-lc10")
