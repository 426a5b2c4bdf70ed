"""A facade of Biren's ``torch_br`` (BR1xx) over hetero's emulated device. Not the vendor's package.

It has to be imported by hand, and leaves ``torch.cuda`` alone.
"""

from __future__ import annotations

import torch

from hetero.emulators.device import supa as _emulated

_emulated.begin("torch_br")

from torch_br import supa  # noqa: E402

_emulated.register(supa)
_emulated.serve("sccl", "SUCCL")

__version__ = "1.10.0"
__all__ = ["supa"]
_ = torch
