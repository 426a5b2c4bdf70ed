"""The AscendC kernels as the ordinary compiler builds them, on the CPU's own memory, and how close is close enough."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType

import pytest
import torch

import hetero
from hetero.backends.ascend import ascendc
from hetero.conform import ops as conform
from hetero.emulators import ascendc as emulated
from hetero.ops import registry
from hetero.ops.spec import Sample
from hetero.ops.where import Where

Draw = Callable[..., torch.Tensor]


@pytest.fixture(scope="session")
def module() -> ModuleType:
    return emulated.load(emulated.build_module())


@pytest.fixture
def on(module: ModuleType) -> Iterator[Callable[[int, int], None]]:
    """``on(cores, unified_buffer)``: kernels run on this many cores of that size, on CPU tensors."""

    def choose(cores: int = 7, unified_buffer: int = ascendc.UNIFIED_BUFFER) -> None:
        ascendc.use(module, ascendc.Place(0, cores, unified_buffer))

    choose()
    yield choose
    ascendc.use(None)


@pytest.fixture(params=[torch.float32, torch.float16, torch.bfloat16], ids=["f32", "f16", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def draw(generator: torch.Generator, dtype: torch.dtype) -> Draw:
    """``draw(*shape, scale=1)``: normal values in the test's dtype."""

    def normal(*shape: int, scale: float = 1.0, dtype: torch.dtype = dtype) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) * scale).to(dtype)

    return normal


@pytest.fixture
def check(on: Callable[..., None], dtype: torch.dtype) -> Callable[[str, Iterable[Sample] | None], None]:
    """``check(op, samples)``: both directions, against the op's maths in float64 as ``hetero conform`` does it."""

    def run(name: str, samples: Iterable[Sample] | None = None) -> None:
        op = registry.op(name)
        if samples is not None:
            given = list(samples)
            op = dataclasses.replace(op, samples=lambda *_: iter(given))
        (impl,) = (i for i in ascendc.implementations("test") if i.op == name)
        # What a CPU can do is beside the point here.
        impl = dataclasses.replace(impl, where=Where(dtypes=impl.where.dtypes, also=impl.where.also))
        found = conform.cases(op, impl, hetero.device("cpu"), dtype)
        assert len(found) >= (2 * len(given) if samples is not None else 10)
        assert [c for c in found if c.failed] == []

    return run
