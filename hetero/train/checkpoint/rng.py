"""Random-number state of one process, as JSON."""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from hetero.accelerator import Device


def seed_all(seed: int) -> None:
    """Seed Python, NumPy and torch, whose seed goes to every device's generator."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _pack(state: torch.Tensor) -> str:
    return base64.b64encode(state.cpu().numpy().tobytes()).decode("ascii")


def _unpack(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)


def capture(device: Device) -> dict[str, Any]:
    """Every generator that training may draw from, as values that JSON can hold."""
    version, internal, gauss = random.getstate()
    numpy_state: dict[str, Any] = np.random.get_state(legacy=False)  # type: ignore[assignment]
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()
    state: dict[str, Any] = {
        "python": [version, list(internal), gauss],
        "numpy": numpy_state,
        "torch": _pack(torch.get_rng_state()),
    }
    if device.type != "cpu":
        state["device"] = {"vendor": device.vendor, "state": _pack(device.rng_state())}
    return state


def restore(state: dict[str, Any], device: Device) -> None:
    """Put back what :func:`capture` returned. Call it last before the first batch: loading draws numbers.

    A generator of another vendor's device means nothing to this one's, which keeps its seed.
    """
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    numpy_state = state["numpy"]
    key = np.array(numpy_state["state"]["key"], dtype=np.uint32)
    np.random.set_state({**numpy_state, "state": {**numpy_state["state"], "key": key}})
    torch.set_rng_state(_unpack(state["torch"]))
    saved = state.get("device")
    if saved is not None and saved["vendor"] == device.vendor:
        device.set_rng_state(_unpack(saved["state"]))
