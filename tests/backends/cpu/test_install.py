"""Installing: what a wheel holds, with a compiler and without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = (
    "hetero",
    "backends",
    "kernels_triton",
    "kernels_cpu",
    "CMakeLists.txt",
    "setup.py",
    "pyproject.toml",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="not a checkout"),
    pytest.mark.timeout(900),
]


def wheel(tmp_path: Path, **env: str) -> tuple[Path, str]:
    """A wheel built from a copy of the sources, and what the build printed."""
    source = tmp_path / "source"
    source.mkdir()
    for name in (*SOURCES, "README.md", "LICENSE"):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        elif path.is_file():
            shutil.copy2(path, source / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-v",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(tmp_path),
        ".",
    ]
    done = subprocess.run(command, cwd=source, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (built,) = tmp_path.glob("*.whl")
    return built, done.stdout + done.stderr


def data_files() -> set[str]:
    """Data that must be installed, by its name in the wheel."""
    found = set()
    for folder, package in (("hetero", "hetero"), ("backends", "hetero/backends")):
        for pattern in ("*.py", "*.json", "*.toml"):
            for path in (ROOT / folder).rglob(pattern):
                found.add(f"{package}/{path.relative_to(ROOT / folder)}")
    return found


def test_without_a_compiler_it_installs_and_says_so(tmp_path: Path) -> None:
    built, output = wheel(tmp_path, CXX="/nonexistent/c++")
    assert "CPU kernels were NOT built" in output
    names = set(zipfile.ZipFile(built).namelist())
    assert not [n for n in names if n.endswith(".so")]
    assert data_files() <= names


def test_with_a_compiler_the_kernels_are_in_it_and_run(tmp_path: Path) -> None:
    if not shutil.which(os.environ.get("CXX", "c++")):
        pytest.skip("no C++ compiler")
    built, _ = wheel(tmp_path)
    archive = zipfile.ZipFile(built)
    assert [n for n in archive.namelist() if n.startswith("hetero/backends/cpu/_kernels")]
    archive.extractall(tmp_path / "installed")
    code = (
        "import torch, hetero, hetero.backends.cpu.native as n; "
        "assert hetero.__file__.startswith(INSTALLED), hetero.__file__; print(n.kernels().isa())"
    ).replace("INSTALLED", repr(str(tmp_path / "installed")))
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True)
