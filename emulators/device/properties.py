"""``get_device_properties`` of an emulated device."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

from hetero.emulators.device.chips import Chip
from hetero.emulators.device.settings import Settings


class DeviceProperties(SimpleNamespace):
    """Attributes as torch's ``_CudaDeviceProperties`` has them; what no source tells of the chip is absent."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__.lstrip('_')}(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // (1 << 20)}MB)"
        )


def properties(settings: Settings, index: int) -> DeviceProperties:
    """Of the visible device ``index``."""
    chip: Chip = settings.chip
    physical = settings.visible[index]
    found: dict[str, Any] = {
        "name": chip.name,
        "major": chip.capability[0],
        "minor": chip.capability[1],
        "total_memory": settings.memory,
        "multi_processor_count": chip.processors,
        "warp_size": chip.warp,
        "max_threads_per_multi_processor": chip.threads,
        "shared_memory_per_multiprocessor": chip.shared_sm,
        "shared_memory_per_block": chip.shared and chip.shared[0],
        "shared_memory_per_block_optin": chip.shared and chip.shared[1],
        "L2_cache_size": chip.cache,
        "max_threads_per_block": None if chip.threads is None else 1024,
        "regs_per_multiprocessor": None if chip.threads is None else 65536,
        "is_multi_gpu_board": 0,
        "is_integrated": 0,
        "pci_bus_id": physical,
        "pci_device_id": 0,
        "pci_domain_id": 0,
        "uuid": uuid.uuid5(uuid.NAMESPACE_OID, f"hetero emulated {chip.name} {physical}"),
        "gcnArchName": chip.name,
    }
    return DeviceProperties(**{name: value for name, value in found.items() if value is not None})
