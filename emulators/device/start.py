"""Starts the emulated devices in this process, before or while torch is imported."""

from __future__ import annotations

import atexit
import ctypes
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from hetero.emulators.device import libraries
from hetero.emulators.device.settings import Settings
from hetero.errors import EmulatorError

_BINDINGS = "hetero_device"


def start(
    site: Path, torch: Path, name: str, title: str, settings: Settings, *, float64: bool = True
) -> None:
    """Have this process see ``settings``'s devices.

    Args:
        site: the emulator's own folder of packages.
        torch: torch's folder.
        name: of the device type: ``"cuda"``, or what PrivateUse1 will be renamed to.
        title: what the vendor's messages call it: ``"CUDA"``.
        float64: whether the device has that dtype.

    Raises:
        EmulatorError: the settings are wrong, or the devices were started already.
    """
    ctypes.CDLL(str(torch / "lib" / "libtorch_cpu.so"))  # the core is linked with it, by name
    core = ctypes.CDLL(str(site / "lib" / libraries.CORE))
    core.hetero_device_start.restype = ctypes.c_char_p
    said = core.hetero_device_start(
        name.encode(), title.encode(), len(settings.visible), ctypes.c_size_t(settings.memory),
        settings.races, int(float64), settings.faults.encode(),
    )  # fmt: skip
    if said is not None:
        raise EmulatorError(f"the emulated {title} devices do not start: {said.decode()}")


def bindings(site: Path) -> Any:
    """The device's Python bindings. To be called when ``torch._C`` is there."""
    known = sys.modules.get(_BINDINGS)
    if known is None:
        spec = importlib.util.spec_from_file_location(_BINDINGS, site / "lib" / libraries.BINDINGS)
        if spec is None or spec.loader is None:
            raise EmulatorError(f"{site / 'lib' / libraries.BINDINGS} cannot be loaded")
        known = sys.modules[_BINDINGS] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(known)
    return known


def collectives(
    site: Path, settings: Settings, name: str, library: str, refused: frozenset[str] = frozenset()
) -> Any:
    """The class of process groups that serves ``torch.distributed`` backend ``name``, over gloo.

    Args:
        library: what its messages call it: ``"NCCL"``.
        refused: collectives that the vendor has not verified, by c10d's names (``"reduce"``).
    """
    device = bindings(site)
    device.first_device = settings.visible[0] if settings.visible else 0
    device.serve(name, library, set(refused))
    return device.bind_process_group()


def report_fallbacks(device: Any, file: str) -> None:
    """At the end of the process, add the operators that fell through to ``file``, one a line."""
    if not file:
        return
    pid = os.getpid()

    def write() -> None:
        if os.getpid() != pid:  # a fork of this process has nothing of its own to say
            return
        with open(file, "a", encoding="utf-8") as to:
            to.write("".join(f"{name}\n" for name in sorted(device.fallen_through())))

    atexit.register(write)


class BeforeImport:
    """A finder that calls ``prepare`` once, when ``module`` is about to be imported, and finds nothing itself."""

    def __init__(self, module: str, prepare: Callable[[], None]) -> None:
        self._module, self._prepare = module, prepare

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == self._module:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            self._prepare()
        return None

    def install(self) -> None:
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]


class AfterImport:
    """A finder that calls ``then`` with ``module`` once that has been imported, by its usual loader."""

    def __init__(self, module: str, then: Callable[[ModuleType], None]) -> None:
        self._module, self._then = module, then

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            self._then(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def install(self) -> None:
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]
