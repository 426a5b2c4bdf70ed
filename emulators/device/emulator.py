"""What the emulators ``cuda``, ``metax`` and ``biren`` have in common."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetero.accelerator.host import Host
from hetero.emulators import cache
from hetero.emulators.device import libraries
from hetero.emulators.device.settings import SETTINGS
from hetero.emulators.registry import Emulator
from hetero.errors import EmulatorError


class DeviceEmulator(Emulator):
    """A vendor's PyTorch, by a device of hetero's own in its place."""

    settings = SETTINGS
    #: Top-level module whose place tells whether a process is emulated.
    module = "torch"

    def site(self) -> Path:
        """Folder of packages that goes first on the path; made if missing."""
        raise NotImplementedError

    def prepare(self, *, wheel: Path | None = None, warnings: bool = False) -> Path:
        if platform.system() != "Linux":
            raise EmulatorError(f"the emulated device is made for Linux, this is {platform.system()}")
        if wheel is not None:
            raise EmulatorError(f"emulator {self.name!r} needs no wheel of the vendor's")
        libraries.prepare(warnings=warnings)
        return self.site()

    def active(self, host: Host) -> bool:
        origin = host.origin(self.module)
        if origin is None or not host.emulated(origin):
            return False
        mark = host.read(f"{origin.rsplit('/', 2)[0]}/emulator.json") or "{}"
        return bool(json.loads(mark).get("emulates") == self.name)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        site = str(self.prepare())
        others = str(cache.folder() / "site-")  # a process has one device
        rest = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and not p.startswith(others)]
        return {"PYTHONPATH": os.pathsep.join([site, *rest])}

    def coverage(self, ran: frozenset[str]) -> list[dict[str, Any]]:
        raise EmulatorError(
            f"emulator {self.name!r} runs every operator that torch has for the CPU; "
            f"{SETTINGS['fallbacks'].variable}=FILE tells which ones ran"
        )
