"""Replayable functions: a device graph where the device has them, the plain function where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from hetero.accelerator.device import Device

#: Runs before a capture, so that lazy initialisation and autotuning are not recorded.
WARMUP = 3


class Graph:
    """A callable that replays ``fn``; ``captured`` says whether it truly does, ``why`` why not.

    A captured graph takes tensors of the shapes and dtypes it was captured with, and returns the same
    output tensors every time: copy what must outlive the next call.
    """

    def __init__(self, fn: Callable[..., Any], captured: bool, why: str = "") -> None:
        self._fn = fn
        self.captured = captured
        self.why = why

    def __call__(self, *args: torch.Tensor) -> Any:
        return self._fn(*args)


def capture(device: Device, fn: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> Graph:
    """Capture ``fn(*args)`` on ``device``. See :meth:`hetero.accelerator.Device.graph`."""
    cap = device.caps.graph_capture
    if not cap:
        return Graph(fn, captured=False, why=f"{device}: graph capture is {cap}")
    module = device.module
    inputs = [a.clone() for a in args]
    side = device.stream()
    side.wait_stream(module.current_stream())
    with module.stream(side):
        for _ in range(WARMUP):
            fn(*inputs)
    module.current_stream().wait_stream(side)
    graph = getattr(module, cap.value)()
    with module.graph(graph):
        outputs = fn(*inputs)

    def replay(*given: torch.Tensor) -> Any:
        for static, new in zip(inputs, given, strict=True):
            if static.shape != new.shape or static.dtype != new.dtype:
                want, got = f"{static.dtype}{list(static.shape)}", f"{new.dtype}{list(new.shape)}"
                raise ValueError(f"graph was captured with {want}, called with {got}")
            static.copy_(new)
        graph.replay()
        return outputs

    return Graph(replay, captured=True)
