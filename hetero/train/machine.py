"""What the machine does while training: memory, and utilisation where the peak is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from hetero.accelerator import Device
    from hetero.train.window import StepResult

_PEAK_OF = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}


class Machine:
    """Adds memory and model FLOP/s utilisation (MFU) to a step's numbers.

    A token costs 2 FLOP for each weight of a matrix in the forward pass, 2 more for the gradient of its
    input, and 2 more for its own gradient if it is trained. Attention scores and recomputed activations are
    left out, and so are embedding look-ups: the MFU is on the low side.
    """

    def __init__(self, model: nn.Module, device: Device, world_size: int) -> None:
        self._device = device
        embedding = model.get_input_embeddings().weight  # type: ignore[operator, union-attr]
        output = model.get_output_embeddings()  # type: ignore[operator]
        head = None if output is None else output.weight  # a classifier has none
        matrices = [p for p in model.parameters() if p.ndim > 1 and (p is head or p is not embedding)]
        self._flops_per_token = sum(p.numel() * (6 if p.requires_grad else 4) for p in matrices)
        peak = device.caps.peak(_PEAK_OF.get(str(embedding.dtype), "unknown")).value
        if device.emulated:
            peak = None  # no speed is taken from an emulator
        self._peak = peak * world_size if peak else None

    def numbers(self, result: StepResult, seconds: float) -> dict[str, Any]:
        """``memory_gib`` (of this rank) and ``mfu``, as far as they are known."""
        found: dict[str, Any] = {}
        memory = self._device.memory()
        held = memory.peak or memory.allocated
        if held is not None:
            found["memory_gib"] = held / 2**30
        if self._peak is not None:
            found["mfu"] = result.tokens * self._flops_per_token / seconds / self._peak
        return found
