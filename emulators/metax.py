"""The MetaX emulator: the emulated ``cuda`` device under the identity of MetaX's build of torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hetero.emulators import toolchain
from hetero.emulators.device import chips, settings, site
from hetero.emulators.device.emulator import DeviceEmulator

#: What `torch.version.cuda` was seen to say in MetaX's builds, and the MACA that a version's label names.
CUDA, MACA = "11.6", "3.8.1.0"
#: MACA's own variable wins, as in MetaX's torch.
_VISIBLE = ("MACA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


class MetaxEmulator(DeviceEmulator):
    """See the module."""

    name = "metax"
    about = "MetaX GPUs: a +metax torch, whose cuda device computes on the CPU"

    def site(self) -> Path:
        version = toolchain.torch_version().partition("+")[0] + "+metax" + MACA
        root = {"maca/Version.txt": f"Version:{MACA}\n"}
        return site.make(self.name, {"__version__": version, "cuda": CUDA}, {}, root)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        changed = super().environment(env)
        root = Path(changed["PYTHONPATH"].split(os.pathsep)[0]) / "maca"
        return changed | {"MACA_PATH": str(root)}


def before_torch(folder: Path, torch: Path) -> None:
    """Start the devices, for the emulated torch's ``version.py``."""
    from hetero.emulators.device import start, torch_cuda

    given = settings.here(chips.METAX, _VISIBLE)
    torch_cuda.before_torch(folder, torch, given, archs="sm_80", cuda=CUDA)
    start.AfterImport("torch.utils.cpp_extension", _maca_home).install()


def _maca_home(module: object) -> None:
    """Only MetaX's fork has this attribute; packages tell it by that."""
    module.MACA_HOME = os.environ.get("MACA_PATH")  # type: ignore[attr-defined]


EMULATOR = MetaxEmulator()
