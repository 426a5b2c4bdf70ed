"""What ``hetero doctor`` reports, as data: environment, backends, devices, kernels.

It has to work on a machine where something is wrong, so each part that can fail is gathered on its own,
and what failed is a sentence in the report. Torch is imported only after the backends have been probed: with
``torch_npu`` installed and CANN absent, importing torch raises.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import traceback
from collections.abc import Sequence
from typing import Any

from hetero.accelerator import registry
from hetero.accelerator.device import Device
from hetero.accelerator.host import Host
from hetero.accelerator.registry import Record

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
#: Versions worth having in a bug report.
_PACKAGES = ("numpy", "triton", "transformers", "peft", "datasets", "safetensors", "deepspeed")
#: Variables, beside HETERO_*, that change what runs.
_ENV = (
    "LOCAL_RANK",
    "WORLD_SIZE",
    "OMP_NUM_THREADS",
    "LD_LIBRARY_PATH",
    "MACA_PATH",
    "ASCEND_HOME_PATH",
    _AUTOLOAD,
)


def gather() -> dict[str, Any]:
    """The whole report; JSON-ready."""
    records = registry.records()
    problems = [p for p in (_autoload_trap(records), _no_entry_points(records)) if p]
    environment = _environment()  # before the next line: it is the user's environment that is reported
    torch_error = _import_torch(trapped=_autoload_trap(records) is not None)
    if torch_error:
        problems.append(f"torch cannot be imported: {torch_error}")
    return {
        "environment": environment,
        "problems": problems,
        "default": "torch cannot be imported" if torch_error else _default(),
        "backends": [_backend(record, with_devices=not torch_error) for record in records],
        "ops": [] if torch_error else _ops(problems),
    }


def _environment() -> dict[str, Any]:
    host = Host.here()
    shown = sorted(k for k in os.environ if k.startswith("HETERO_") or k in _ENV or k in _visible())
    return {
        "hetero": importlib.import_module("hetero").__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "torch": host.torch_version or "not installed",
        "os": platform.platform(),
        "packages": {p: v for p in _PACKAGES if (v := host.package(p))},
        "env": {k: os.environ[k] for k in shown},
    }


def _visible() -> set[str]:
    backends = [r.backend for r in registry.records() if r.backend is not None]
    return {name for backend in backends for name in backend.visible_devices_env}


def _autoload_trap(records: Sequence[Record]) -> str | None:
    """Why a plain ``import torch`` raises here, if it does: a device package it loads by itself is broken."""
    if os.environ.get(_AUTOLOAD) == "0":
        return None
    autoloaded = {p.value.partition(":")[0] for p in importlib.metadata.entry_points(group="torch.backends")}
    for record in records:
        package = next(iter(autoloaded & set(record.probe.versions)), None)
        if record.probe.state == "broken" and package:
            return (
                f"a plain `import torch` loads {package} and raises, for {record.probe.error} "
                f"(this report was made with {_AUTOLOAD}=0)"
            )
    return None


def _no_entry_points(records: Sequence[Record]) -> str | None:
    if records:
        return None
    return f"no backend is installed (entry points {registry.GROUP!r}): install hetero with pip"


def _import_torch(trapped: bool) -> str | None:
    if trapped:
        os.environ[_AUTOLOAD] = "0"
    try:
        importlib.import_module("torch")
    except (ImportError, OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _default() -> str:
    """The device that ``hetero.device()`` gives, or why it gives none."""
    from hetero.accelerator.select import device, reasons
    from hetero.errors import HeteroError

    try:
        chosen = device()
    except HeteroError as error:
        return str(error)
    return f"{chosen} ({reasons.get(chosen.vendor, 'in use')})"


def _backend(record: Record, with_devices: bool) -> dict[str, Any]:
    probe = record.probe
    row: dict[str, Any] = {
        "name": record.name,
        "package": record.package,
        "state": probe.state,
        "torch_types": list(record.torch_types),
        "versions": probe.versions,
        "evidence": list(probe.evidence),
        "conflicts": list(probe.conflicts),
        "error": probe.error,
        "install": "" if probe.state == "found" else probe.install,
        "choose": f"--device={record.name} or HETERO_BACKEND={record.name}",
        "devices": [],
    }
    if record.found and record.backend is not None and with_devices:
        try:
            record.backend.load()
            row["devices"] = [_device(record.backend.device(i)) for i in range(record.backend.device_count())]
        except Exception as error:  # noqa: BLE001 - a vendor's package may raise anything; the report carries it
            row["state"], row["error"] = "broken", "".join(traceback.format_exception(error)).strip()
    return row


def _device(device: Device) -> dict[str, Any]:
    return {
        "device": str(device),
        "torch": str(device.torch),
        "name": device.name,
        "arch": device.arch,
        "emulated": device.emulated,
        "driver": device.driver,
        "memory": vars(device.memory()),
        "caps": {name: {"state": c.state, "value": c.value, "why": c.why} for name, c in device.caps.items()},
        "peaks": {name: str(peak) for name, peak in device.caps.peaks.items()},
    }


def _ops(problems: list[str]) -> list[dict[str, str]]:
    try:
        return importlib.import_module("hetero.ops.registry").table()
    except Exception as error:  # noqa: BLE001 - one backend's kernels may be broken; the rest is still worth reporting
        problems.append(f"the table of ops cannot be made: {type(error).__name__}: {error}")
        return []
