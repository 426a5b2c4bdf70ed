"""Made-up plugins, installed as entry points without touching the environment."""

from __future__ import annotations

import importlib.metadata
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hetero.accelerator import Backend, Caps, Device, Identity, Probe, registry, select


class FakeModule:
    """A ``torch.cuda``-shaped module that records what it was asked."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.calls: list[str] = []

    def device_count(self) -> int:
        return self.count

    def get_device_name(self, index: int) -> str:
        return f"Fake {index}"

    def mem_get_info(self, device: Any) -> tuple[int, int]:
        return 3 << 30, 8 << 30

    def memory_allocated(self, device: Any) -> int:
        return 1 << 30

    def synchronize(self, device: Any) -> None:
        self.calls.append(f"synchronize {device}")


class FakeBackend(Backend):
    """An accelerator on torch device type ``cuda``, with as many devices as asked for."""

    torch_types = ("cuda",)

    def __init__(self, name: str, score: int = 10, count: int = 2, **attributes: Any) -> None:
        self.name = name
        self.score = score
        self.fake = FakeModule(count)
        self.state, self.loads = "found", 0
        for key, value in attributes.items():
            setattr(self, key, value)

    def probe(self, host: Any) -> Probe:
        error = "it does not start" if self.state == "broken" else ""
        return Probe(
            self.state, self.score, (f"saw {self.name}",), install=f"pip install {self.name}", error=error
        )

    def load(self) -> None:
        self.loads += 1

    def module(self) -> FakeModule:
        return self.fake

    def identity(self, index: int) -> Identity:
        return Identity(f"Fake {index}", "fake1")

    def caps(self, index: int) -> Caps:
        return Caps()

    def device(self, index: int) -> Device:
        return Device(self, index)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """``plugins(backend, ...)`` installs backends (or anything else) next to the CPU's."""
    points = [p for p in importlib.metadata.entry_points(group=registry.GROUP) if p.name == "cpu"]

    def install(*loaded: Any, names: tuple[str, ...] = ()) -> None:
        for number, item in enumerate(loaded):
            name = names[number] if names else item.name
            module = types.ModuleType(f"fake_plugin_{name}_{len(points)}")
            module.backend = item  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, module.__name__, module)
            points.append(importlib.metadata.EntryPoint(name, f"{module.__name__}:backend", registry.GROUP))
        select.reset()

    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points if group == registry.GROUP else []
    )
    monkeypatch.delenv("HETERO_BACKEND", raising=False)
    select.reset()
    yield install
    select.reset()


@pytest.fixture
def fake() -> type[FakeBackend]:
    return FakeBackend
