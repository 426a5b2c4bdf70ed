"""Whether an implementation has been shown right on this (vendor, architecture, dtype).

Selection never picks an implementation that lacks a record; it may still be pinned. Records are JSON, made by
``hetero conform``: those a backend ships (``conformance.json`` in its folder) and those made on this machine
(in the user's cache folder), which add to them.
"""

from __future__ import annotations

import json
import os
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hetero.errors import OpError
from hetero.ops.impl import Impl
from hetero.ops.where import dtype_name

if TYPE_CHECKING:
    from hetero.accelerator import Device

SCHEMA = 1
_FIELDS = ("op", "impl", "version", "arch", "dtype", "direction")


def user_file(vendor: str) -> Path:
    """Where records made on this machine are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "hetero" / "conformance" / f"{vendor}.json"


def read(path: Path) -> list[dict[str, Any]]:
    """Records of one file.

    Raises:
        OpError: the file is not what ``hetero conform`` writes.
    """
    try:
        content = json.loads(path.read_text())
        if content["schema"] != SCHEMA:
            raise OpError(f"{path}: conformance schema {content['schema']}, this hetero reads {SCHEMA}")
        for row in content["records"]:
            for name in _FIELDS:
                row[name]
        return content["records"]
    except (ValueError, KeyError, TypeError) as error:
        raise OpError(
            f"{path}: not a conformance record ({error}); delete it or run `hetero conform`"
        ) from error


@cache
def records(vendor: str) -> frozenset[tuple[str, ...]]:
    """Every (op, implementation, version, architecture, dtype, direction) of ``vendor`` that has a record."""
    rows = [row for f in (*_shipped(vendor), user_file(vendor)) if f.is_file() for row in read(f)]
    return frozenset(tuple(row[name] for name in _FIELDS) for row in rows)


def _shipped(vendor: str) -> list[Path]:
    """``conformance.json`` in the package of ``vendor``'s backend, wherever that is installed."""
    from hetero.accelerator import registry

    record = registry.record(vendor)
    if record is None or record.backend is None:
        return []
    package = record.backend.tables or type(record.backend).__module__
    return [Path(str(resources.files(package))) / "conformance.json"]


def forget() -> None:
    """Read the files again at the next question."""
    records.cache_clear()


def arch_key(device: Device) -> str:
    """What records of ``device`` are kept under: its architecture. An emulated device proves nothing about a chip."""
    return f"{device.arch} (emulated)" if device.emulated else device.arch


def why_unproven(impl: Impl, direction: str, device: Device, dtype: torch.dtype | None) -> str | None:
    """None when ``impl`` is proven here; else a sentence that says what is missing and how to get it."""
    if impl.kind == "reference":
        return None
    wanted = (impl.op, impl.name, impl.version, arch_key(device), dtype_name(dtype), direction)
    if wanted in records(impl.vendor or device.vendor):
        return None
    return (
        f"unproven: no conformance record for {device.vendor}/{arch_key(device)} {dtype_name(dtype)} "
        f"version {impl.version} (run `hetero conform --backend {device.vendor} --record`, or pin it)"
    )


def archs(vendor: str) -> frozenset[str]:
    """Architectures of ``vendor`` that some record covers."""
    return frozenset(row[_FIELDS.index("arch")] for row in records(vendor))


def summary(impl: Impl, device: Device) -> str:
    """``"proven: bfloat16, float32"`` on ``device``, or ``"unproven"``. A missing direction is named."""
    found: dict[str, set[str]] = {}
    for op, name, version, arch, dtype, direction in records(device.vendor):
        if (op, name, version, arch) == (impl.op, impl.name, impl.version, arch_key(device)):
            found.setdefault(dtype, set()).add(direction)
    wanted = {d for d in ("forward", "backward") if impl.target(d)}
    parts = [
        d if has >= wanted else f"{d} ({'/'.join(sorted(has))} only)" for d, has in sorted(found.items())
    ]
    return f"proven: {', '.join(parts)}" if parts else "unproven"
