"""The compiled kernels, at every instruction set this processor runs, and how close is close enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from hetero.backends.cpu import native

ISAS = ("generic", "avx2", "avx2_wide", "avx512")


@pytest.fixture(scope="session")
def kernels() -> ModuleType:
    """The compiled module; tests that need it are skipped where it was not built."""
    module = native.load()
    if module is None:
        pytest.skip("the CPU kernels are not built")
    return module


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest, kernels: ModuleType) -> Iterator[str]:
    """Runs the test once for each build of the kernels."""
    if request.param not in kernels.available_isas():
        pytest.skip(f"this processor does not run {request.param}")
    before = kernels.isa()
    kernels.set_isa(request.param)
    yield request.param
    kernels.set_isa(before)


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def draw(generator: torch.Generator, dtype: torch.dtype) -> Callable[..., Tensor]:
    """``draw(*shape, scale=1)``: normal values in the test's dtype."""

    def normal(*shape: int, scale: float = 1.0, dtype: torch.dtype = dtype) -> Tensor:
        return (torch.randn(shape, generator=generator) * scale).to(dtype)

    return normal


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Runs the test with one and with two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def with_gradients(
    fn: Callable[..., Any], inputs: Sequence[Tensor], upstream: Sequence[Tensor]
) -> list[Tensor]:
    """Outputs of ``fn(*inputs)``, then the gradient of each input, by autograd in the dtype of the inputs."""
    leaves = [t.detach().requires_grad_() for t in inputs]
    out = fn(*leaves)
    out = list(out) if isinstance(out, (tuple, list)) else [out]
    gradients = torch.autograd.grad(out, leaves, [u.to(o.dtype) for u, o in zip(upstream, out)])
    return [o.detach() for o in out] + list(gradients)


@pytest.fixture
def check() -> Callable[..., None]:
    """``check(ours, fn, inputs, upstream)``: ``ours`` are the outputs and gradients of ``fn``.

    Their error against autograd in float64 may be four times plain torch's own in the inputs' dtype, and one unit in
    the last place of the largest value, and two roundings (to ``unit``) of the upstream gradient times ``size``,
    the largest value in between, where results cancel.
    """

    def compare(
        ours: Sequence[Tensor],
        fn: Callable[..., Any],
        inputs: Sequence[Tensor],
        upstream: Sequence[Tensor],
        size: float = 1.0,
        unit: torch.dtype = torch.float32,
    ) -> None:
        exact = with_gradients(fn, [t.double() for t in inputs], [u.double() for u in upstream])
        plain = with_gradients(fn, inputs, upstream)
        assert len(ours) == len(exact)
        largest = max((u.abs().max().item() for u in upstream if u.numel()), default=0.0)
        floor = 2 * torch.finfo(unit).eps * largest * max(size, 1.0)
        for i, (got, e, p) in enumerate(zip(ours, exact, plain)):
            assert got.shape == e.shape, f"output {i}"
            assert got.is_contiguous(), f"output {i}"
            if not e.numel():
                continue
            own = (p.double() - e).abs().max()
            allowed = 4 * own + torch.finfo(got.dtype).eps * e.abs().max() + floor
            error = (got.double() - e).abs().max()
            assert error <= allowed, (
                f"output {i}: error {error:.3g}, plain torch {own:.3g}, allowed {allowed:.3g}"
            )

    return compare
