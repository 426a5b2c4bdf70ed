"""Sizes around every edge: of a tile (all are multiples of 64 elements), of 32 bytes, of a core's share of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from hetero.ops.spec import Sample

Draw = Callable[..., torch.Tensor]
#: One less than, exactly, and one more than a multiple of 64; and what is odd about short ones.
WIDTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, *(64 * k + d for k in (1, 2, 3, 4) for d in (-1, 0, 1)))
#: Unified buffers that give tiles of 64 and of a few hundred elements.
BUFFERS = (4096, 9000)


def labels(rows: int, classes: int, generator: torch.Generator) -> torch.Tensor:
    """First and last class among them, and an ignored row where there is room for one."""
    drawn = torch.randint(0, classes, (rows,), generator=generator)
    drawn[0], drawn[-1] = classes - 1, 0
    if rows > 2:
        drawn[1] = -100
    return drawn


@pytest.mark.parametrize("buffer", BUFFERS)
def test_swiglu(check: Callable[..., None], on: Callable[..., None], draw: Draw, buffer: int) -> None:
    on(3, buffer)

    def samples() -> Iterator[Sample]:
        for n in WIDTHS:
            yield Sample(f"5x{n}", (draw(5, n), draw(5, n)))
            both = draw(5, 2 * n)
            yield Sample(f"halves 5x{n}", (both[:, :n], both[:, n:]))

    check("swiglu", samples())


@pytest.mark.parametrize("buffer", BUFFERS)
def test_fused_add_rms_norm(
    check: Callable[..., None], on: Callable[..., None], draw: Draw, buffer: int
) -> None:
    on(3, buffer)
    check(
        "fused_add_rms_norm",
        (
            Sample(f"{casting} 5x{n}", (draw(5, n), draw(5, n), draw(n), 1e-6, offset, casting))
            for n in WIDTHS
            for offset, casting in ((0.0, "llama"), (1.0, "gemma"))
        ),
    )


def test_fused_add_rms_norm_weights(check: Callable[..., None], on: Callable[..., None], draw: Draw) -> None:
    on(3, 4096)
    samples = []
    for n in (17, 100, 200):
        x, residual = draw(70, n), draw(70, n)
        samples.append(Sample(f"no weight {n}", (x, residual, None, 1e-6, 0.0, "llama")))
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            weight = draw(n, dtype=dtype)
            samples.append(Sample(f"{dtype} weight {n}", (x, residual, weight, 1e-6, 0.0, "gemma")))
    check("fused_add_rms_norm", samples)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope(check: Callable[..., None], on: Callable[..., None], draw: Draw, interleaved: bool) -> None:
    on(3, 4096)

    def samples() -> Iterator[Sample]:
        for half in (1, 3, 4, 5, 7, 8, 9, 31, 32, 33, 36):
            angle = torch.rand(6, half) * 6
            for rest in (0, 1, 8, 17):
                q, k = draw(2, 3, 5, 2 * half + rest), draw(2, 3, 1, 2 * half + rest)
                yield Sample(
                    f"{half}+{rest}",
                    (q, k, angle[None, :3].cos(), angle[None, :3].sin(), None, interleaved, False),
                )
        at = torch.tensor([[5, 0, 3], [1, 2, 4]])
        yield Sample("positions", (q, k, angle.cos(), angle.sin(), at, interleaved, True))

    check("rope", samples())


@pytest.mark.parametrize("buffer", BUFFERS)
@pytest.mark.parametrize("options", [(0.0, 0.0, 0.0), (0.1, 1e-3, 5.0)], ids=["plain", "all options"])
def test_cross_entropy(
    check: Callable[..., None], on: Callable[..., None], draw: Draw, generator: torch.Generator, buffer: int,
    options: tuple[float, ...],
) -> None:  # fmt: skip
    on(3, buffer)
    check(
        "cross_entropy",
        (Sample(f"5x{n}", (draw(5, n, scale=4), labels(5, n, generator), -100, *options)) for n in WIDTHS),
    )


@pytest.mark.parametrize("options", [(1.0, 0.0), (0.7, 4.0)], ids=["plain", "all options"])
def test_linear_log_prob(
    check: Callable[..., None], on: Callable[..., None], draw: Draw, generator: torch.Generator,
    options: tuple[float, ...],
) -> None:  # fmt: skip
    on(3, 4096)
    check(
        "linear_log_prob",
        (
            Sample(f"5x{n}", (draw(5, 4), draw(n, 4), draw(n), labels(5, n, generator), *options, -100))
            for n in WIDTHS[1:]
        ),
    )


@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 129])
def test_rows_over_cores(
    check: Callable[..., None], on: Callable[..., None], draw: Draw, generator: torch.Generator, rows: int
) -> None:
    """Results of rows are written 64 at a time, and not every core has the same number of rows."""
    on(2)
    x, w = draw(rows, 3), draw(3)
    check("fused_add_rms_norm", [Sample("", (x, draw(rows, 3), w, 1e-6, 0.0, "llama"))])
    check("cross_entropy", [Sample("", (x, labels(rows, 3, generator), -100, 0.0, 0.0, 0.0))])
