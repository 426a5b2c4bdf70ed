"""Every backend that is installed: loaded, checked and probed once, each on its own.

Backends are entry points of group ``hetero.backends``. A plugin that fails breaks neither
``import hetero`` nor another backend: its exception is kept in its record, and ``hetero doctor`` shows it.
"""

from __future__ import annotations

import importlib.metadata
import threading
import traceback
from dataclasses import dataclass

from hetero.accelerator.backend import Backend, Probe, check_api
from hetero.accelerator.host import Host

GROUP = "hetero.backends"


@dataclass(frozen=True)
class Record:
    """One entry point: who brings it, its backend (None where that failed), what its probe said."""

    name: str
    package: str
    target: str
    backend: Backend | None
    probe: Probe

    @property
    def found(self) -> bool:
        return self.probe.state == "found"

    @property
    def torch_types(self) -> tuple[str, ...]:
        return () if self.backend is None else self.backend.torch_types


_lock = threading.Lock()
_records: tuple[Record, ...] | None = None


def records() -> tuple[Record, ...]:
    """A record of every installed backend, by name. Probes run on the first call only."""
    global _records
    with _lock:
        if _records is None:
            _records = collect(Host.here())
        return _records


def record(name: str) -> Record | None:
    """The record of backend ``name``, if one is installed."""
    return next((r for r in records() if r.name == name), None)


def forget() -> None:
    """Forget all records: the next call probes again (a test, or a plugin installed meanwhile)."""
    global _records
    with _lock:
        _records = None


def collect(host: Host) -> tuple[Record, ...]:
    """Load and probe every entry point against ``host``."""
    found: dict[str, Record] = {}
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=_hetero_first):
        package = _package(point)
        if point.name not in found:
            found[point.name] = examine(point, package, host)
        elif (found[point.name].target, found[point.name].package) != (point.value, package):
            # Kept under a name of its own, so that doctor shows it: two installs of one name are a mistake.
            taken_by = found[point.name].package
            error = f"backend name {point.name!r} is already taken by {taken_by}: uninstall one"
            key = f"{point.name} ({package})"
            found[key] = Record(key, package, point.value, None, Probe("broken", error=error))
    return tuple(found[name] for name in sorted(found))


def examine(point: importlib.metadata.EntryPoint, package: str, host: Host) -> Record:
    """Load one entry point, check its API version, run its probe; an exception becomes state "broken"."""
    backend: Backend | None = None
    try:
        loaded = point.load()
        candidate = loaded if isinstance(loaded, Backend) else loaded()
        problem = _malformed(point.name, candidate) or check_api(point.name, candidate.api, package)
        if problem is not None:
            return Record(point.name, package, point.value, None, Probe("broken", error=problem))
        backend = candidate
        probe = backend.probe(host)
        if not isinstance(probe, Probe):
            raise TypeError(f"probe() returned {type(probe).__name__}, not hetero.accelerator.Probe")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a plugin does, it is recorded, not hidden
        probe = Probe("broken", error=_summary(error))
    return Record(point.name, package, point.value, backend, probe)


def _malformed(name: str, candidate: object) -> str | None:
    if not isinstance(candidate, Backend):
        kind = type(candidate).__name__
        return f"backend {name!r}: the entry point gives a {kind}, not a hetero.accelerator.Backend"
    if candidate.name != name:
        return f"the entry point is called {name!r} but the backend names itself {candidate.name!r}"
    if not candidate.torch_types:
        return f"backend {name!r}: torch_types is empty"
    return None


def _summary(error: BaseException) -> str:
    """The exception and the innermost frame: enough to see whose fault it is."""
    text = "".join(traceback.format_exception_only(error)).strip()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    return f"{text} (at {frames[-1].filename}:{frames[-1].lineno})" if frames else text


def _package(point: importlib.metadata.EntryPoint) -> str:
    return "unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _hetero_first(point: importlib.metadata.EntryPoint) -> tuple[bool, str, str]:
    return (point.dist is None or point.dist.name != "hetero", point.name, point.value)
