"""The text behind ``Device.explain()``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetero.accelerator import registry, select

if TYPE_CHECKING:
    from hetero.accelerator.device import Device


def explain(device: Device) -> str:
    """Which device, why it, what the other backends said, and what it can do."""
    lines = [f"{device}: {device.name}, arch {device.arch}, torch device {device.torch}"]
    if device.driver:
        lines.append("  driver: " + ", ".join(f"{k} {v}" for k, v in device.driver.items()))
    lines.append(f"  why: {select.reasons.get(device.vendor, 'it owns a torch device that was in use')}")
    for record in registry.records():
        if record.name == device.vendor:
            lines += [f"  evidence: {line}" for line in record.probe.evidence]
            lines += [f"  conflict: {line}" for line in record.probe.conflicts]
    for record in registry.records():
        if record.name != device.vendor:
            said = record.probe.error or "; ".join((*record.probe.evidence, *record.probe.conflicts))
            lines.append(f"  not {record.name}: {record.probe.state}" + (f": {said}" if said else ""))
    lines.append("  capabilities:")
    lines += [f"    {name}: {cap}" for name, cap in device.caps.items()]
    lines.append("  peaks:")
    lines += [f"    {name}: {peak}" for name, peak in device.caps.peaks.items()] or ["    none is known"]
    return "\n".join(lines)
