"""Devices and the vendor plugins behind them.

:func:`device` names one, :func:`devices` lists them all, :func:`device_of` says which one owns a tensor.
Nothing here is probed at import.
"""

from hetero.accelerator.backend import API, Backend, CommSpec, Identity, Probe
from hetero.accelerator.caps import Cap, Caps
from hetero.accelerator.device import Device, MemoryInfo
from hetero.accelerator.host import Host
from hetero.accelerator.peaks import Peak
from hetero.accelerator.select import device, device_of, devices

__all__ = [
    "API",
    "Backend",
    "Cap",
    "Caps",
    "CommSpec",
    "Device",
    "Host",
    "Identity",
    "MemoryInfo",
    "Peak",
    "Probe",
    "device",
    "device_of",
    "devices",
]
