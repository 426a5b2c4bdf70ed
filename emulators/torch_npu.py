"""Huawei's ``torch_npu`` wheel, unmodified, in a folder of its own.

It must not be installed beside torch on a machine without CANN: torch loads it by itself, and ``import torch``
raises. So the wheel is unpacked into the cache, and only emulated processes have that folder on their path.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from hetero.accelerator.host import Host
from hetero.emulators import cache, toolchain
from hetero.errors import EmulatorError

#: torch -> the torch_npu that the emulator was made for and is tested with.
PINS = {"2.13.0": "2.13.0"}


@dataclass(frozen=True)
class TorchNpu:
    """Where the package is. ``side``: in a folder of its own, which has to be put on PYTHONPATH."""

    folder: Path
    version: str
    side: bool

    @property
    def includes(self) -> Path:
        """Headers of CANN's libraries, which the wheel carries."""
        return self.folder / "torch_npu" / "include" / "third_party"


def find(wheel: Path | None = None) -> TorchNpu:
    """The package: as installed here, from the cache, from ``wheel``, or fetched with pip.

    Raises:
        EmulatorError: there is none for this torch, this Python or this machine, or it cannot be fetched.
    """
    torch = re.match(r"[\d.]+\d", toolchain.torch_version())
    pin = PINS.get(torch[0]) if torch else None
    if pin is None:
        raise EmulatorError(
            f"the Ascend emulator is made for torch {', '.join(PINS)} (torch_npu {', '.join(PINS.values())}), "
            f"this is torch {toolchain.torch_version() or '(not installed)'}: pip install torch=={next(iter(PINS))}"
        )
    installed = _installed()
    if installed is not None:
        if installed.version.partition("+")[0] != pin:
            raise EmulatorError(
                f"torch_npu {installed.version} is installed in {installed.folder}, the emulator needs {pin}"
            )
        return installed
    abi = f"cp{sys.version_info.major}{sys.version_info.minor}"
    folder = cache.folder() / f"torch_npu-{pin}-{abi}"
    if not folder.is_dir():
        with cache.locked("torch_npu"):
            if not folder.is_dir():
                _unpack(pin, abi, wheel, folder)
    return TorchNpu(cache.touch(folder), pin, True)


def _installed() -> TorchNpu | None:
    """What this Python would import, if anything: nothing is imported."""
    spec = importlib.util.find_spec("torch_npu")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent.parent
    side = folder.parent == cache.folder()
    return TorchNpu(folder, Host.here().package("torch_npu", "torch-npu") or "?", side)


def _unpack(pin: str, abi: str, wheel: Path | None, folder: Path) -> None:
    with cache.publish(folder) as made:
        file = wheel or _download(pin, made)
        name = re.fullmatch(rf"torch_npu-{re.escape(pin)}-{abi}-\w+-(\w+)\.whl", file.name)
        if name is None or not name[1].endswith(platform.machine()):
            want = f"torch_npu-{pin}-{abi}-{abi}-..._{platform.machine()}.whl"
            raise EmulatorError(f"{file.name} is not the wheel for this Python and machine: want {want}")
        try:
            with zipfile.ZipFile(file) as archive:
                archive.extractall(made)
        except (OSError, zipfile.BadZipFile) as error:
            raise EmulatorError(f"{file} cannot be unpacked: {error}") from error
        if wheel is None:
            file.unlink()


def _download(pin: str, to: Path) -> Path:
    print(f"hetero: fetching torch_npu {pin} with pip (about 45 MB, once) ...", file=sys.stderr, flush=True)
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--only-binary", ":all:", "--dest", str(to), f"torch-npu=={pin}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    found = next(to.glob("torch_npu-*.whl"), None)
    if done.returncode or found is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise EmulatorError(
            f"torch_npu {pin} could not be fetched: {said[-1] if said else f'pip exit code {done.returncode}'}\n"
            "Without a network: get its wheel elsewhere (`pip download --no-deps torch-npu=="
            f"{pin}`) and give it with `hetero emulate ascend --build --wheel FILE`"
        )
    return found
