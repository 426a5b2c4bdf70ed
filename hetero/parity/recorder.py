"""Listening to a run: each op's results, with the module that it belongs to, in both passes."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from hetero.parity.events import Event, summary

#: Ops whose results nobody has written yet.
_UNWRITTEN = ("empty", "new_empty")


class Recorder(TorchDispatchMode):
    """Keeps an :class:`Event` of each result computed while it is entered.

    An op of the backward pass belongs to the module whose forward pass made its node: nodes are numbered as they are
    made, so the numbers at which modules were entered and left say which.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.step = 1
        #: Truth values [batch, tokens]: which are no padding. What padding comes to is nobody's business.
        self.real: Tensor | None = None
        self._model = model
        self._calls: Counter[tuple[int, str, str, str]] = Counter()
        self._inside: list[str] = []
        # Where the owner of new nodes changed: the number of the next node then, and the module.
        self._numbers: list[int] = []
        self._owners: list[str] = []

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Record ops and modules' outputs; for one forward and backward pass."""
        self._numbers, self._owners = [], []
        self._mark()
        handles = []
        for name, module in self._model.named_modules():
            if name:
                handles.append(module.register_forward_pre_hook(self._entering(name)))
                handles.append(module.register_forward_hook(self._leaving(name), always_call=True))
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def note(self, phase: str, module: str, op: str, value: Any) -> None:
        """Record the tensors in ``value`` as the results of one call."""
        call = (self.step, phase, module, op)
        nth = self._calls[call]
        self._calls[call] += 1
        for part, tensor in enumerate(_tensors(value)):
            if tensor.numel():
                kept = self._without_padding(tensor) if phase in ("forward", "backward") else tensor
                self.events.append(Event(*call, nth, part, **summary(kept)))  # type: ignore[arg-type]

    def _without_padding(self, tensor: Tensor) -> Tensor:
        """``tensor`` with zeros for padding, if its shape is one that activations come in: tokens, also by head."""
        if self.real is None:
            return tensor
        batch, tokens = self.real.shape
        if tensor.shape[:2] == (batch, tokens):
            real = self.real
        elif tensor.shape[:1] == (batch * tokens,):
            real = self.real.reshape(-1)
        elif (tensor.shape[:1], tensor.shape[2:3]) == ((batch,), (tokens,)):
            real = self.real[:, None]
        else:
            return tensor
        host = tensor.detach().cpu()
        return torch.where(
            real.reshape(*real.shape, *[1] * (host.ndim - real.ndim)), host, host.new_zeros(())
        )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not _is_view(func) and not func.__name__.startswith(_UNWRITTEN):
            with torch.utils._python_dispatch._disable_current_modes():
                phase, module = self._where()
                name = f"{func.namespace}.{func.__name__.removesuffix('.default')}"
                self.note(phase, module, name, result if result is not None else args)
        return result

    def _where(self) -> tuple[str, str]:
        node = torch._C._current_autograd_node()
        if (
            node is None or self._inside
        ):  # modules that run again in the backward pass are recomputed activations
            return "forward", self._inside[-1] if self._inside else ""
        at = bisect_right(self._numbers, node._sequence_nr()) - 1
        return "backward", self._owners[at] if at >= 0 else ""

    def _mark(self) -> None:
        if torch._C._current_autograd_node() is None:
            self._numbers.append(torch.autograd._get_sequence_nr())
            self._owners.append(self._inside[-1] if self._inside else "")

    def _entering(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any) -> None:
            self._inside.append(name)
            self._mark()

        return hook

    def _leaving(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            with torch.utils._python_dispatch._disable_current_modes():
                self.note("forward", name, "output", output)
            self._inside.pop()
            self._mark()

        return hook


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from _tensors(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
