"""From what the user wrote to a device: explicit choice, ``HETERO_BACKEND``, or the best one found.

A choice that cannot be met is an error that says what was looked for and what to install, never a
silent fall to the CPU. PyTorch has one accelerator a process, and so has hetero: several vendors in one
job are several processes, joined by the communicator.
"""

from __future__ import annotations

import difflib
import os
import re
import threading
from typing import TYPE_CHECKING, Any

from hetero.accelerator import registry
from hetero.accelerator.backend import HOST, Backend
from hetero.accelerator.device import Device
from hetero.accelerator.registry import Record
from hetero.errors import BackendError, DeviceError

if TYPE_CHECKING:
    import torch

_ENV = "HETERO_BACKEND"
_SPEC = re.compile(r"([A-Za-z][\w-]*)(?::(\d+))?")

_lock = threading.RLock()
_loaded: dict[str, Backend] = {}
_devices: dict[tuple[str, int], Device] = {}
_owners: dict[torch.device, Device] = {}
#: Vendor of this process's accelerator and, for ``explain()``, why it is that one.
_bound: str | None = None
reasons: dict[str, str] = {}


def device(spec: str | torch.device | Device | None = None) -> Device:
    """The device that ``spec`` names.

    Args:
        spec: ``"vendor"`` (its current device), ``"vendor:index"``, a ``torch.device``, a :class:`Device`, or
            None: what ``HETERO_BACKEND`` names, else the most specific accelerator found, else the CPU.

    Raises:
        BackendError: the vendor is unknown, absent, broken or ambiguous.
        DeviceError: the device does not exist.
    """
    if isinstance(spec, Device):
        return spec
    if spec is None:
        requested = os.environ.get(_ENV)
        if requested:
            return _named(requested, f"{_ENV}={requested}")
        return _make(_best(), None)
    if isinstance(spec, str):
        return _named(spec, f"device {spec!r} was asked for")
    return device_of(spec)


def devices() -> list[Device]:
    """Every device usable in this process: the accelerator's, then the CPU."""
    names = [n for n in (_bound or _best(), "cpu") if registry.record(n) is not None]
    return [_make(name, i) for name in dict.fromkeys(names) for i in range(_load(name).device_count())]


def device_of(x: torch.Tensor | torch.device) -> Device:
    """The device, vendor included, that owns a tensor or torch device. About 1 µs once it has been seen.

    Raises:
        DeviceError: no backend in this process owns that torch device type.
    """
    where: Any = getattr(x, "device", x)
    found = _owners.get(where)
    return found if found is not None else _own(where)


def reset() -> None:
    """Forget devices, choices and probes: for tests."""
    global _bound
    with _lock:
        _loaded.clear()
        _devices.clear()
        _owners.clear()
        reasons.clear()
        _bound = None
        registry.forget()


# -- choosing a backend
def _named(spec: str, why: str) -> Device:
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        raise DeviceError(f"device {spec!r} is not VENDOR or VENDOR:INDEX, such as 'cpu' or 'ascend:0'")
    name, index = match[1].lower(), match[2]
    if registry.record(name) is None:
        raise BackendError(_unknown(name))
    reasons.setdefault(name, why)
    return _make(name, None if index is None else int(index))


def _best() -> str:
    """The most specific backend that has a device; the CPU has the lowest claim that counts."""
    if _bound is not None:
        return _bound
    candidates = [r for r in registry.records() if r.found and r.probe.score >= HOST]
    for score in sorted({r.probe.score for r in candidates}, reverse=True):
        level = [r for r in candidates if r.probe.score == score and _load(r.name).device_count() > 0]
        if len(level) > 1:
            raise _tie(level)
        if level:
            reasons.setdefault(level[0].name, _why_best(level[0], candidates))
            return level[0].name
    raise BackendError("no backend has a device, not even the CPU's: is hetero installed (`pip install .`)?")


def _why_best(best: Record, candidates: list[Record]) -> str:
    if best.probe.score == HOST:
        return "no accelerator was found"
    others = [r.name for r in candidates if r is not best and r.probe.score < best.probe.score]
    return "most specific claim with a device" + (f", before {', '.join(sorted(others))}" if others else "")


def _owner(torch_type: str) -> str:
    """Name of the backend that owns ``torch_type`` in this process."""
    candidates = [r for r in registry.records() if r.found and r.probe.score >= HOST]
    claims = [r for r in candidates if torch_type in r.torch_types]
    for preferred in (_bound, os.environ.get(_ENV, "").partition(":")[0]):
        if any(r.name == preferred for r in claims):
            return str(preferred)
    if not claims:
        raise DeviceError(f"no backend here owns torch device type {torch_type!r}; see `hetero doctor`")
    top = max(r.probe.score for r in claims)
    best = [r for r in claims if r.probe.score == top]
    if len(best) > 1:
        raise _tie(best)
    return best[0].name


# -- making devices
def _make(name: str, index: int | None) -> Device:
    with _lock:
        backend = _load(name)
        if index is None:
            index = _current(backend)
        known = _devices.get((name, index))
        if known is not None:
            return known
        count = backend.device_count()
        if index >= count:
            raise DeviceError(_no_such(backend, index, count))
        _bind(backend)
        return _devices.setdefault((name, index), backend.device(index))


def _own(where: Any) -> Device:
    import torch

    if not isinstance(where, torch.device):
        raise TypeError(f"want a tensor or a torch.device, got {type(where).__name__}")
    made = _make(_owner(where.type), where.index)
    if where.index is not None or made.torch.index is None:  # a bare "cuda" means whichever is current
        _owners[where] = made
    return made


def _load(name: str) -> Backend:
    """The backend called ``name``, its vendor's package imported."""
    with _lock:
        if name not in _loaded:
            record = registry.record(name)
            if record is None or record.backend is None or not record.found:
                raise BackendError(_unusable(name, record))
            try:
                record.backend.load()
            except (ImportError, OSError, RuntimeError) as error:
                raise BackendError(
                    f"backend {name!r} was found but cannot be loaded: {type(error).__name__}: {error}. "
                    f"`hetero doctor` shows the evidence; {_ENV}=cpu runs on the CPU instead"
                ) from error
            _loaded[name] = record.backend
        return _loaded[name]


def _bind(backend: Backend) -> None:
    global _bound
    if backend.torch_types[0] == "cpu":
        return
    if _bound is not None and _bound != backend.name:
        raise DeviceError(
            f"this process already runs on {_bound!r}; PyTorch has one accelerator a process, so "
            f"{backend.name!r} needs a process of its own (hetero.comm joins processes of several vendors)"
        )
    _bound = backend.name


def _current(backend: Backend) -> int:
    """Current device of a backend that is in use, 0 before: asking would create a context."""
    module = backend.module()
    initialised = getattr(module, "is_initialized", None)
    if backend.torch_types[0] == "cpu" or initialised is None or not initialised():
        return 0
    return module.current_device()


# -- messages
def _tie(level: list[Record]) -> BackendError:
    names = [r.name for r in level]
    claims = "; ".join(f"{r.name} ({r.package}): {', '.join(r.probe.evidence)}" for r in level)
    return BackendError(
        f"backends {' and '.join(map(repr, names))} make equally good claims on this machine: {claims}. "
        f"Set {_ENV}={names[0]} or {_ENV}={names[1]}"
    )


def _unknown(name: str) -> str:
    installed = {r.name: r for r in registry.records()}
    for record in installed.values():
        if record.backend is not None and name in (*record.torch_types, *record.backend.also_called):
            return f"there is no backend {name!r}: hetero names the vendor, so say {record.name!r}"
    near = difflib.get_close_matches(name, installed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no backend {name!r}{hint} Installed: {', '.join(sorted(installed))}"


def _unusable(name: str, record: Record | None) -> str:
    if record is None:
        return _unknown(name)
    if record.probe.state == "broken":
        return f"backend {name!r} ({record.package}) is broken: {record.probe.error}"
    usable = ", ".join(r.name for r in registry.records() if r.found)
    lines = [f"backend {name!r} cannot be used here: it was looked for and not found."]
    lines += [f"  looked for: {line}" for line in record.probe.evidence]
    lines += [f"  conflict: {line}" for line in record.probe.conflicts]
    if record.probe.install:
        lines.append(f"  to use it: {record.probe.install}")
    lines.append(f"  usable here: {usable or 'none'} (`hetero doctor` shows all)")
    return "\n".join(lines)


def _no_such(backend: Backend, index: int, count: int) -> str:
    if count == 0:
        hidden = [f"{v}={os.environ[v]!r}" for v in backend.visible_devices_env if v in os.environ]
        because = f" ({', '.join(hidden)})" if hidden else ""
        return f"{backend.name}:{index} does not exist: no device is visible{because}"
    span = f"{backend.name}:0" if count == 1 else f"{backend.name}:0 to {backend.name}:{count - 1}"
    return f"{backend.name}:{index} does not exist: there {'is' if count == 1 else 'are'} {count} ({span})"
