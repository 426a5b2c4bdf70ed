"""Where the packages lie, and how the CPU kernels are built. Metadata is in pyproject.toml."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
#: package -> folder of its sources
FOLDERS = {
    "hetero": "hetero",
    "hetero.backends": "backends",
    "hetero.emulators": "emulators",
    "hetero.kernels_ascend": "kernels_ascend",
    "hetero.kernels_triton": "kernels_triton",
}
KERNELS = "hetero.backends.cpu._kernels"

FALLBACK = """
******************************************************************************
hetero: the CPU kernels were NOT built; the package works, on plain torch and slower.
  {reason}
  To build them: install a C++17 compiler (Debian, Ubuntu: apt install g++), then
  install hetero again.
******************************************************************************
"""


class CMakeBuild(build_ext):
    """Builds the kernels with CMake. Installing goes on where that fails, with a warning that says why."""

    def build_extension(self, ext: Extension) -> None:
        try:
            self._cmake(Path(self.get_ext_fullpath(ext.name)).resolve())
        except (ImportError, OSError, subprocess.CalledProcessError) as error:
            output = (getattr(error, "output", None) or "").strip()
            if output:
                print(output[-4000:], file=sys.stderr)
            print(FALLBACK.format(reason=f"{type(error).__name__}: {error}"), file=sys.stderr)

    def _cmake(self, target: Path) -> None:
        import pybind11

        build = Path(self.build_temp).resolve() / "kernels_cpu"
        build.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        configure = [
            _tool("cmake"), "-S", str(ROOT), "-B", str(build),
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={build / 'out'}",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
        ]  # fmt: skip
        if ninja := _tool("ninja", required=False):
            configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
        _run(configure)
        _run([configure[0], "--build", str(build), "--parallel", str(self.parallel or _cores())])
        (built,) = (build / "out").glob("_kernels*")
        shutil.copy2(built, target)


def _tool(name: str, required: bool = True) -> str | None:
    """The tool that the build requirements brought, else the system's."""
    try:
        module = __import__(name)
    except ImportError:
        found = shutil.which(name)
    else:
        found = shutil.which(
            name, path=getattr(module, f"{name.upper()}_BIN_DIR", module.__dict__.get("BIN_DIR"))
        )
        found = found or shutil.which(name)
    if found is None and required:
        raise FileNotFoundError(f"{name} was not found")
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    print(done.stdout)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _packages() -> list[str]:
    names = []
    for package, folder in FOLDERS.items():
        names += [package, *(f"{package}.{name}" for name in find_packages(str(ROOT / folder)))]
    return names


setup(
    packages=_packages(),
    package_dir=FOLDERS,
    package_data={
        "": ["*.toml", "*.json", "*.yaml", "py.typed"],
        "hetero.backends": ["_template/**/*"],
        "hetero.emulators": ["**/*.h", "**/*.cpp"],
        "hetero.kernels_ascend": ["**/*.h", "**/*.cpp", "**/*.asc", "CMakeLists.txt"],
    },
    ext_modules=[Extension(KERNELS, sources=[], optional=True)],
    cmdclass={"build_ext": CMakeBuild},
)
