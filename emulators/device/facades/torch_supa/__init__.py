"""A facade of Biren's ``torch_supa`` (BR2xx) over hetero's emulated device. Not the vendor's package."""

from __future__ import annotations

import os

_autoload_before = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # as the vendor's does; only _autoload puts it back

import torch  # noqa: E402

from hetero.emulators.device import supa as _emulated  # noqa: E402

_emulated.begin("torch_supa")

from torch_supa import supa  # noqa: E402

_emulated.register(supa)

from torch_supa import distributed  # noqa: E402

__version__ = "1.0.0"
__all__ = ["distributed", "supa"]


def _autoload() -> None:
    """What ``import torch`` calls: the device, and in ``torch.cuda``'s place too."""
    if _autoload_before is None:
        os.environ.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    else:
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = _autoload_before
    os.environ["IS_CUSTOM_DEVICE_BACKEND_IMPORTED"] = "1"
    from torch_supa.contrib import transfer_to_supa  # noqa: F401


_ = torch
