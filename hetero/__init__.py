"""hetero: one interface to every accelerator.

Three nouns and a verb: a *device* (:func:`device`), a *communicator* (:mod:`hetero.comm`), a fused *op*
(:mod:`hetero.ops`), and ``explain()`` on each of them. Importing this package probes nothing, loads no
vendor package and reads no environment variable; every name below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_LAZY = {
    "device": "hetero.accelerator",
    "devices": "hetero.accelerator",
    "device_of": "hetero.accelerator",
    "Device": "hetero.accelerator",
    "Caps": "hetero.accelerator",
    "patch": "hetero.train.patching",
}
_SUBPACKAGES = ("accelerator", "backends", "comm", "conform", "lint", "ops", "train")

__all__ = ["__version__", *_LAZY, *_SUBPACKAGES]

if TYPE_CHECKING:
    from hetero.accelerator import Caps as Caps
    from hetero.accelerator import Device as Device
    from hetero.accelerator import device as device
    from hetero.accelerator import device_of as device_of
    from hetero.accelerator import devices as devices
    from hetero.train.patching import patch as patch


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
    elif name in _SUBPACKAGES:
        value = importlib.import_module(f"hetero.{name}")
    else:
        raise AttributeError(f"module 'hetero' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
