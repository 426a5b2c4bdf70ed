"""Copies, casts, fills, ranges; joining, selecting, moving and padding elements."""

from __future__ import annotations

import time

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers, whole
from tests.emulators.opapi.table import Row, check, ran, rows

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

MOVES = rows("""
InplaceCopy                      | FIB | a.t().contiguous()
InplaceCopy                      | FIB | a.clone()
InplaceCopy                      | FI  | b.copy_(c)
InplaceCopy                      | IB  | a.to(torch.float32)
InplaceCopy                      | FI  | a.to(torch.bfloat16).to(torch.int64)
InplaceCopy                      | FI  | a.bool()
InplaceZero                      | FIB | a.zero_()
InplaceZero                      | FIB | torch.zeros_like(a)
InplaceFillScalar                | FIB | torch.ones_like(a)
InplaceFillScalar                | FIB | a.fill_(1)
InplaceFillTensor                | FI  | a.fill_(z)
InplaceFillDiagonal              | FI  | a.fill_diagonal_(3)
InplaceFillScalar                | FI  | torch.full_like(a, 3)
SWhere                           | FIB | torch.where(m, a, c)
SWhere                           | F   | torch.where(m, a, 0.0)
InplaceMaskedFillScalar          | FIB | a.masked_fill_(m, 1)
InplaceMaskedFillScalar          | F   | a.masked_fill(m, float('-inf'))
InplaceMaskedFillTensor          | FI  | a.masked_fill_(m, z)
InplaceMaskedScatter             | FI  | a.masked_scatter_(m, b)
InplaceMaskedScatter             | F   | a.masked_scatter(m, b)
MaskedSelect                     | FIB | torch.masked_select(a, m)
Cat                              | FIB | torch.cat([a, b, a])
Cat                              | F   | torch.cat([a, b.t().reshape(a.shape)], -1)
Stack                            | FIB | torch.stack([a, b], 1)
Repeat                           | FIB | a.repeat(2, 1, 3)
Flip                             | FIB | torch.flip(a, [0, -1])
Roll                             | FIB | torch.roll(a, (1, 2), (0, 1))
Roll                             | FI  | torch.roll(a, 3)
Tril                             | FIB | torch.tril(a, -1)
Triu                             | FIB | torch.triu(a, 1)
InplaceTril                      | FI  | a.tril_()
InplaceTriu                      | FI  | a.triu_(1)
ConstantPadNd                    | FI  | F.pad(a, (1, 2, 0, 1), value=3)
InplaceCopy                      | F   | torch.cat(a.split([1, 3], 1)[::-1], 1)
InplaceCopy                      | F   | a[:, 1:3].contiguous()
InplaceCopy                      | F   | a.expand(2, *a.shape).contiguous()
UnfoldGrad                       | f   | a.unfold(1, 2, 1)
""")


@pytest.mark.parametrize("row", MOVES, ids=str)
def test_move(row: Row) -> None:
    check(row)


RANGES = [
    "torch.arange(7, device=device)",
    "torch.arange(1.5, 4, 0.25, device=device)",
    "torch.arange(9, 1, -3, dtype=torch.bfloat16, device=device)",
    "torch.linspace(-1, 2, 7, device=device)",
    "torch.linspace(-1, 2, 7, dtype=torch.float16, device=device)",
    "torch.logspace(0, 2, 5, base=2.0, device=device)",
    "torch.range(1, 4, 0.5, device=device)",
    "torch.eye(3, device=device)",
    "torch.eye(3, 5, dtype=torch.int64, device=device)",
    "torch.full((2, 3), 1.5, device=device)",
    "torch.full((2, 3), True, device=device)",
    "torch.ones(2, 0, 3, dtype=torch.int32, device=device)",
    "torch.scalar_tensor(3.5, device=device)",
    "torch.tensor([1, 2, 3], device=device)",
]


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("expression", RANGES)
def test_range(expression: str) -> None:
    expected, actual = (eval(expression, {"torch": torch, "device": device}) for device in ("cpu", "npu"))
    torch.testing.assert_close(actual.cpu(), expected)


def test_ranges_ran_their_operators() -> None:
    for expression in RANGES:
        eval(expression, {"torch": torch, "device": "npu"})
    assert {
        "aclnnInplaceOne",
        "aclnnArange",
        "aclnnRange",
        "aclnnLinspace",
        "aclnnLogSpace",
        "aclnnEye",
    } <= ran().keys()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_npu_dtype_cast(dtype: torch.dtype) -> None:
    cast = torch.ops.npu.npu_dtype_cast
    agree(
        lambda x: cast(x, dtype), numbers(3, 4, grad=dtype.is_floating_point), reference=lambda x: x.to(dtype)
    )
    assert "aclnnCast" in ran()


def test_one_hot() -> None:
    agree(lambda x: torch.nn.functional.one_hot(x, 5), whole(5, 2, 3))
    assert "aclnnOneHot" in ran()


def test_channel_shuffle() -> None:
    agree(lambda x: torch.channel_shuffle(x, 2), numbers(2, 6, 3, 3))
    assert "aclnnChannelShuffle" in ran()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chunk_cat(dtype: torch.dtype) -> None:
    """What fully_shard's reduce-scatter packs gradients with."""
    agree(lambda a, b: torch._chunk_cat([a, b], 0, 2), numbers(5, 3, dtype=dtype), numbers(4, 3, dtype=dtype))
    out = torch.empty(2, 15, dtype=torch.float32).npu()
    parts = [numbers(5, 3, dtype=dtype), numbers(4, 3, dtype=dtype)]
    torch._chunk_cat([p.npu() for p in parts], 0, 2, out=out)
    torch.testing.assert_close(out.cpu(), torch._chunk_cat(parts, 0, 2).float())
    assert "aclnnChunkCat" in ran()


def test_masked_scale() -> None:
    mask = whole(2, 3, 4).to(torch.uint8)
    agree(
        lambda x, m: torch._masked_scale(x, m, 2.0), numbers(3, 4), mask, reference=lambda x, m: x * m * 2.0
    )


def test_qkv_with_bias_is_split_into_heads() -> None:
    def split(qkv: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch._transform_bias_rescale_qkv(qkv, bias, 2)

    agree(split, numbers(2, 3, 24), numbers(24))
    assert "aclnnTransformBiasRescaleQkv" in ran()


def test_sleep_holds_the_stream_and_not_the_host() -> None:
    torch.npu.synchronize()
    start = time.monotonic()
    torch.npu._sleep(10_000_000)
    host = time.monotonic() - start
    torch.npu.synchronize()
    assert host < 0.15 and time.monotonic() - start >= 0.2


def test_a_cast_to_float64_gives_float32() -> None:
    """torch_npu's own doing."""
    assert numbers(3).npu().to(torch.float64).dtype == torch.float32
