"""Getting the vendor's wheel: pins, wrong files, broken files, what is installed already."""

from __future__ import annotations

import platform
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import pytest

from hetero.emulators import cache, toolchain, torch_npu
from hetero.errors import EmulatorError

ABI = f"cp{sys.version_info.major}{sys.version_info.minor}"
NAME = f"torch_npu-2.13.0-{ABI}-{ABI}-manylinux_2_28_{platform.machine()}.whl"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "torch_version", lambda: "2.13.0+cpu")
    monkeypatch.setattr(torch_npu, "_installed", lambda: None)


def wheel(folder, name=NAME):
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("torch_npu/__init__.py", "")
        archive.writestr("torch_npu/include/third_party/acl/inc/acl/acl.h", "")
    return folder / name


def nothing_half_left():
    return [path.name for path in cache.folder().iterdir() if path.is_dir()] == []


def test_a_given_wheel_is_unpacked_once_and_then_needs_no_file(tmp_path):
    file = wheel(tmp_path / "wheels")
    found = torch_npu.find(file)
    assert found.side and found.version == "2.13.0"
    assert (found.includes / "acl" / "inc" / "acl" / "acl.h").exists() and file.exists()
    file.unlink()
    assert torch_npu.find() == found


@pytest.mark.parametrize("other", [("cp3", "cp2"), ("2.13.0", "2.12.0"), (platform.machine(), "sparc")])
def test_a_wheel_for_something_else_is_refused(tmp_path, other):
    with pytest.raises(
        EmulatorError, match=f"is not the wheel for this Python and machine: want torch_npu-2.13.0-{ABI}"
    ):
        torch_npu.find(wheel(tmp_path, NAME.replace(*other, 1)))
    assert nothing_half_left()


def test_a_broken_wheel_leaves_nothing(tmp_path):
    (tmp_path / NAME).write_bytes(b"half of a wh")
    with pytest.raises(EmulatorError, match="cannot be unpacked"):
        torch_npu.find(tmp_path / NAME)
    assert nothing_half_left()
    with pytest.raises(EmulatorError, match="No such file"):
        torch_npu.find(tmp_path / "elsewhere" / NAME)


def test_a_torch_without_a_pin_is_told_which_have_one(monkeypatch):
    monkeypatch.setattr(toolchain, "torch_version", lambda: "2.9.1+cu128")
    with pytest.raises(EmulatorError, match=r"made for torch 2\.13\.0 .*this is torch 2\.9\.1\+cu128"):
        torch_npu.find()


def test_pip_fetches_the_pin_and_a_failed_download_says_what_to_do(tmp_path, monkeypatch):
    asked = []

    def pip(command, **_):
        asked.append(command)
        if len(asked) == 1:
            return SimpleNamespace(returncode=1, stdout="", stderr="ERROR: no such host\n")
        target = command[command.index("--dest") + 1]
        wheel(tmp_path / "x").rename(f"{target}/{NAME}")
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(subprocess, "run", pip)
    with pytest.raises(EmulatorError, match=r"(?s)no such host.*--build --wheel FILE"):
        torch_npu.find()
    assert nothing_half_left()
    found = torch_npu.find()
    assert "torch-npu==2.13.0" in asked[1] and "--no-deps" in asked[1]
    assert not list(found.folder.glob("*.whl"))


def test_one_that_is_installed_is_used_if_it_is_the_right_one(monkeypatch, tmp_path):
    own = torch_npu.TorchNpu(tmp_path, "2.13.0", False)
    monkeypatch.setattr(torch_npu, "_installed", lambda: own)
    assert torch_npu.find() is own
    monkeypatch.setattr(torch_npu, "_installed", lambda: torch_npu.TorchNpu(tmp_path, "2.12.0", False))
    with pytest.raises(EmulatorError, match=r"torch_npu 2\.12\.0 is installed in .*needs 2\.13\.0"):
        torch_npu.find()
