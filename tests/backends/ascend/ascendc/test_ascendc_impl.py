"""What the registry is told, and where the kernels refuse to run."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from hetero.accelerator import Caps
from hetero.accelerator.caps import Cap
from hetero.backends.ascend import ascendc, ascendc_glu
from hetero.errors import BackendError
from hetero.ops import registry


class Chip:
    """A device with these capabilities."""

    def __init__(self, **caps: Cap) -> None:
        self.caps = Caps(**caps)


A2 = Chip(max_shared_bytes=Cap("yes", value=196608))


def why_not(op: str, args: tuple[object, ...], chip: Chip = A2) -> str | None:
    (impl,) = (i for i in ascendc.implementations("test") if i.op == op)
    return impl.where.why_not(registry.op(op).forward.facts(args), chip)


def test_every_target_can_be_loaded_and_fits_its_declaration() -> None:
    for impl in ascendc.implementations("test"):
        assert registry.op(impl.op).backward is not None
        assert callable(impl.load("forward"))
        assert callable(impl.load("backward"))
        assert impl.kind == "native"


def test_where() -> None:
    x = torch.empty(2, 8)
    assert why_not("swiglu", (x, x)) is None
    assert why_not("swiglu", (x.double(), x.double())) == "float64 not in {bfloat16, float16, float32}"
    assert why_not("swiglu", (x[:, :0], x[:, :0])) == "rows of no elements"
    assert "max_shared_bytes" in (why_not("swiglu", (x, x), Chip()) or "")
    heads = torch.empty(1, 1, 1, 2048)
    assert why_not("rope", (heads, heads, x, x, None, False, False)) == "heads of 2048 > 2040 features"


def test_none_where_nothing_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetero.emulators.running", lambda: "")
    assert ascendc.ascendc_ops() == ()


def test_version_when_emulated_follows_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetero.emulators.running", lambda: "ascend")
    from hetero.emulators import ascendc as emulated

    versions = {i.version for i in ascendc.ascendc_ops()}
    assert versions == {emulated.source_hash()[:12]}


def test_cpu_tensors_are_refused_unless_a_test_asked(on: Callable[..., None], module: ModuleType) -> None:
    x = torch.ones(2, 3)
    ascendc_glu.swiglu(x, x)
    ascendc.use(None)
    with pytest.raises(BackendError, match="take tensors on an NPU, got one on cpu"):
        ascendc.place(x)


def test_bad_arguments_are_refused(on: Callable[..., None], module: ModuleType) -> None:
    place = ascendc.Place(0, 4, 188160)
    with pytest.raises(ValueError, match="swiglu: dtype code 99"):
        module.swiglu(place, 1, 1, 0, 1, 0, 1, 0, 0, 99, 0, 0, 0)
    with pytest.raises(ValueError, match="cores must be at least 1"):
        module.swiglu((0, 0, 188160), 1, 1, 0, 1, 0, 1, 0, 0, 544, 0, 0, 0)
    with pytest.raises(ValueError, match="the unified buffer is too small"):
        module.swiglu((0, 1, 512), 1, 1, 0, 1, 0, 1, 0, 0, 544, 0, 0, 0)
    with pytest.raises(ValueError, match="more than 2040 features"):
        module.rope(place, (1, 1, 1, 4000), 2000, 0, (1, 1, 1), 544, 0, 0, 0, 0, 0, 0, 0, False, False, 0)


def test_more_unified_buffer_than_a_core_has(on: Callable[..., None]) -> None:
    on(1, 400 * 1024)
    x = torch.ones(1, 16384)
    with pytest.raises(RuntimeError, match="hetero_swiglu, block 0 of 1: the unified buffer is full"):
        ascendc_glu.swiglu(x, x)
