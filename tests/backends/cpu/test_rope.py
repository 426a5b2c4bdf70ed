"""rope against the rotation of complex numbers in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hetero.backends.cpu import rope as kernel
from hetero.errors import OpError


def exact(x: Tensor, angle: Tensor, interleaved: bool) -> Tensor:
    """``x`` [B, T, H, D] float64 turned by ``angle`` [B, T, R/2]."""
    half = angle.shape[-1]
    turning, rest = x[..., : 2 * half], x[..., 2 * half :]
    pairs = (
        turning.unflatten(-1, (half, 2))
        if interleaved
        else turning.unflatten(-1, (2, half)).transpose(-1, -2)
    )
    turned = torch.view_as_real(
        torch.complex(pairs[..., 0], pairs[..., 1]) * torch.exp(1j * angle[:, :, None])
    )
    turned = turned.flatten(-2) if interleaved else turned.transpose(-1, -2).flatten(-2)
    return torch.cat([turned, rest], -1)


def close(got: Tensor, want: Tensor) -> None:
    eps = torch.finfo(got.dtype).eps
    assert got.is_contiguous()
    if want.numel():
        assert (got.double() - want).abs().max() <= (eps / 2 + 3e-7) * want.abs().max()


@pytest.mark.parametrize("interleaved", [False, True], ids=["half", "interleaved"])
@pytest.mark.parametrize("inverse", [False, True], ids=["", "inverse"])
@pytest.mark.parametrize(
    ("b", "t", "hq", "hk", "d", "r"),
    [(1, 1, 1, 1, 2, 2), (2, 5, 3, 1, 16, 16), (2, 7, 4, 2, 20, 10), (1, 9, 2, 2, 128, 128), (2, 3, 1, 1, 70, 66),
     (2, 0, 2, 2, 8, 8), (1, 2, 1, 0, 8, 4), (1, 3, 2, 2, 6, 0)],
)  # fmt: skip
def test_positions(
    isa: str, draw: Callable[..., Tensor], generator: torch.Generator, interleaved: bool, inverse: bool,
    b: int, t: int, hq: int, hk: int, d: int, r: int,
) -> None:  # fmt: skip
    q, k = draw(b, t, hq, d), draw(b, t, hk, d)
    table = torch.rand(50, r // 2, generator=generator, dtype=torch.float64) * 6
    positions = torch.randint(0, 50, (b, t), generator=generator)
    got = kernel.rope(q, k, table.cos().float(), table.sin().float(), positions, interleaved, inverse)
    angle = table[positions] * (-1 if inverse else 1)
    close(got[0], exact(q.double(), angle, interleaved))
    close(got[1], exact(k.double(), angle, interleaved))


@pytest.mark.parametrize("interleaved", [False, True], ids=["half", "interleaved"])
def test_strided_inputs_and_tables(isa: str, draw: Callable[..., Tensor], interleaved: bool) -> None:
    """Heads first, slices of one fused projection, half of a doubled table, tables in bfloat16."""
    b, t, h, d = 2, 6, 3, 24
    angle = torch.linspace(0, 5, b * t * d // 2, dtype=torch.float64).view(b, t, d // 2)
    cos, sin = angle.cos().float(), angle.sin().float()
    q, k = draw(b, t, h, d), draw(b, t, h, d)
    want = kernel.rope(q, k, cos, sin, None, interleaved, False)

    def same(q: Tensor, k: Tensor, cos: Tensor = cos, sin: Tensor = sin) -> None:
        assert all(map(torch.equal, kernel.rope(q, k, cos, sin, None, interleaved, False), want))

    heads_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k)]
    same(*heads_first)
    fused = torch.cat([q.flatten(2), k.flatten(2)], -1)
    same(fused[..., : h * d].view(b, t, h, d), fused[..., h * d :].view(b, t, h, d))
    same(q.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0), k)
    same(q, k, torch.cat([cos, cos], -1)[..., : d // 2], sin)
    same(q, k, cos.repeat_interleave(2, -1)[..., ::2], sin.repeat_interleave(2, -1)[..., ::2])
    cos, sin = cos.bfloat16(), sin.bfloat16()
    low = kernel.rope(q, k, cos, sin, None, interleaved, False)
    assert all(map(torch.equal, low, kernel.rope(q, k, cos.float(), sin.float(), None, interleaved, False)))


def test_tables_shared_by_the_batch(isa: str, draw: Callable[..., Tensor]) -> None:
    q, k = draw(3, 4, 2, 8), draw(3, 4, 1, 8)
    angle = torch.linspace(0, 3, 16).view(1, 4, 4)
    shared = kernel.rope(q, k, angle.cos(), angle.sin(), None, False, False)
    own = kernel.rope(q, k, angle.cos().repeat(3, 1, 1), angle.sin().repeat(3, 1, 1), None, False, False)
    assert all(map(torch.equal, shared, own))


def test_backward_undoes_forward(isa: str, draw: Callable[..., Tensor]) -> None:
    q, k = draw(2, 3, 2, 16, dtype=torch.float32), draw(2, 3, 2, 16, dtype=torch.float32)
    angle = torch.linspace(0, 6, 24).view(1, 3, 8)
    args = (angle.cos(), angle.sin(), None, True, False)
    back = kernel.rope_backward(*kernel.rope(q, k, *args), *args)
    torch.testing.assert_close(back, (q, k), rtol=1e-5, atol=1e-5)


def test_a_position_outside_the_table_is_named(kernels: object) -> None:
    q = torch.zeros(2, 3, 1, 4)
    table = torch.zeros(10, 2)
    for bad in (10, -1):
        positions = torch.tensor([[0, 1, 2], [3, bad, 5]])
        with pytest.raises(IndexError, match=rf"token 4: position {bad} is outside .* 10 rows"):
            kernel.rope(q, q, table, table, positions, False, False)


@pytest.mark.parametrize("cos", [(1, 4, 2), (3, 3, 2), (2, 3, 3), (3, 2)])
def test_tables_that_do_not_fit_are_refused(kernels: object, cos: tuple) -> None:
    """Read as given they would be overrun."""
    q, table = torch.zeros(2, 3, 1, 4), torch.zeros(cos)
    with pytest.raises(OpError, match="do not fit"):
        kernel.rope(q, q, table, table, None, False, False)
