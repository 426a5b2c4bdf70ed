from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers, whole

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

F = torch.nn.functional


def _x(*shape: int, **kw: Any) -> torch.Tensor:
    return numbers(*shape, grad=True, **kw)


def _perm(n: int) -> torch.Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(n))


def _set(x: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    x[key] = value
    return x


def _put(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor, accumulate: bool) -> torch.Tensor:
    return x.index_put_((i,), v, accumulate=accumulate)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "index": (lambda x, i: x[i], (_x(5, 3), whole(5, 4))),
    "index_int32": (lambda x, i: x[i], (_x(5, 3), whole(5, 4, dtype=torch.int32))),
    "index_two": (lambda x, i, j: x[i, j], (_x(5, 3), whole(5, 4), whole(3, 4))),
    "index_broadcast": (lambda x, i, j: x[i[:, None], j], (_x(5, 3, 2), whole(5, 4), whole(3, 2))),
    "index_gap": (lambda x, i, j: x[i, :, j], (_x(5, 3, 4), whole(5, 2), whole(4, 2))),
    "index_skip_first": (lambda x, i: x[:, i], (_x(5, 3, 4), whole(3, 2, 2))),
    "index_mask": (lambda x, m: x[m], (_x(5, 3), whole(2, 5, 3, dtype=torch.bool))),
    "index_mask_rows": (lambda x, m: x[m], (_x(5, 3), whole(2, 5, dtype=torch.bool))),
    "index_empty": (lambda x, i: x[i], (_x(5, 3), whole(5, 0))),
    "index_strided": (lambda x, i: x.t()[i], (_x(5, 3), whole(3, 4))),
    "index_int64": (lambda x, i: x[i], (whole(9, 5, 3), whole(5, 4))),
    "setitem": (lambda x, i, v: _set(x, i, v), (numbers(5, 3), _perm(5)[:2], numbers(2, 3))),
    "setitem_skip_first": (
        lambda x, i, v: _set(x, (slice(None), i), v),
        (numbers(5, 3), _perm(3)[:2], numbers(5, 2)),
    ),
    "setitem_mask": (lambda x, m: _set(x, m, -1.0), (numbers(5, 3), whole(2, 5, 3, dtype=torch.bool))),
    "setitem_mask_rows": (
        lambda x, m, v: _set(x, m, v),
        (numbers(5, 3), torch.tensor([True, False, True, True, False]), numbers(3, 3)),
    ),
    "index_put_accumulate": (
        lambda x, i, v: _put(x, i, v, True),
        (numbers(5, 3), torch.tensor([1, 1, 4, 1]), numbers(4, 3)),
    ),
    "index_put_accumulate_bfloat16": (
        lambda x, i, v: _put(x, i, v, True),
        (numbers(5, 3).bfloat16(), torch.tensor([1, 2, 4]), numbers(3, 3).bfloat16()),
    ),
    "index_select": (lambda x, i: x.index_select(1, i), (_x(5, 3, 2), whole(3, 4))),
    "index_select_negative_dim": (lambda x, i: x.index_select(-1, i), (_x(5, 3, 2), whole(2, 4))),
    "index_add": (
        lambda x, i, s: x.index_add(0, i, s, alpha=2),
        (_x(5, 3), torch.tensor([1, 1, 3]), _x(3, 3)),
    ),
    "index_add_": (lambda x, i, s: x.index_add_(1, i, s), (numbers(3, 5), whole(5, 2), numbers(3, 2))),
    "index_copy": (lambda x, i, s: x.index_copy(0, i, s), (_x(5, 3), _perm(5)[:2], _x(2, 3))),
    "index_copy_": (lambda x, i, s: x.index_copy_(1, i, s), (numbers(3, 5), _perm(5)[:2], numbers(3, 2))),
    "gather": (lambda x, i: x.gather(1, i), (_x(5, 3), whole(3, 5, 2))),
    "gather_dim0": (lambda x, i: x.gather(0, i), (_x(5, 3), whole(5, 2, 3))),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), (_x(5, 3), whole(3, 5, 4))),
    "scatter": (
        lambda x, s: x.scatter(1, _perm(3).expand(5, 3).to(x.device), s),
        (_x(5, 3), _x(5, 3, seed=1)),
    ),
    "scatter_value": (lambda x, i: x.scatter(1, i, 2.5), (_x(5, 3), whole(3, 5, 1))),
    "scatter_": (lambda x, i, s: x.scatter_(1, i, s), (numbers(5, 3), _perm(3).repeat(5, 1), numbers(5, 3))),
    "scatter_value_": (
        lambda x, i: x.scatter_(0, i, True),
        (torch.zeros(5, 3, dtype=torch.bool), whole(5, 2, 3)),
    ),
    "scatter_add": (lambda x, i, s: x.scatter_add(1, i, s), (_x(5, 3), whole(3, 5, 4), _x(5, 4))),
    "scatter_add_": (lambda x, i, s: x.scatter_add_(0, i, s), (numbers(5, 3), whole(5, 4, 3), numbers(4, 3))),
    "index_fill": (lambda x, i: x.index_fill(1, i, 2.5), (_x(5, 3), whole(3, 2))),
    "index_fill_": (lambda x, i: x.index_fill_(0, i, -1), (whole(9, 5, 3), whole(5, 2))),
    "take": (torch.take, (_x(5, 3), whole(15, 2, 4))),
    "put_": (lambda x, i, s: x.put_(i, s), (numbers(5, 3), _perm(15)[:4], numbers(4))),
    "put_accumulate_": (
        lambda x, i, s: x.put_(i, s, accumulate=True),
        (numbers(5, 3), torch.tensor([3, 3, 7]), numbers(3)),
    ),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), (_x(4, 3, 2),)),
    "repeat_interleave_flat": (lambda x: x.repeat_interleave(2), (numbers(4, 3),)),
    "repeat_interleave_counts": (
        lambda x, r: x.repeat_interleave(r, 0),
        (numbers(4, 3), torch.tensor([1, 0, 3, 2])),
    ),
    "nonzero": (torch.nonzero, (whole(2, 4, 5),)),
    "nonzero_none": (torch.nonzero, (torch.zeros(4, 5),)),
    "nonzero_tuple": (lambda x: torch.where(x), (whole(2, 4, 5, dtype=torch.bool),)),
    "embedding": (F.embedding, (whole(7, 2, 5), _x(7, 3))),
    "embedding_int32": (F.embedding, (whole(7, 2, 5, dtype=torch.int32), _x(7, 3))),
    "embedding_padding": (lambda i, w: F.embedding(i, w, padding_idx=2), (whole(7, 4, 9), _x(7, 3))),
    "embedding_scaled": (lambda i, w: F.embedding(i, w, scale_grad_by_freq=True), (whole(7, 9), _x(7, 3))),
    "embedding_empty": (F.embedding, (whole(7, 0, 5), _x(7, 3))),
    "embedding_bfloat16": (F.embedding, (whole(3, 40), _x(3, 5, dtype=torch.bfloat16))),
    "embedding_renorm": (lambda i, w: F.embedding(i, w, max_norm=0.5), (whole(7, 4), numbers(7, 3))),
    "embedding_bag_sum": (
        lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"),
        (whole(7, 6), numbers(7, 3), torch.tensor([0, 2, 4])),
    ),
    "embedding_bag_mean": (
        lambda i, w, o: F.embedding_bag(i, w, o, mode="mean"),
        (whole(7, 6), numbers(7, 3), torch.tensor([0, 2, 4])),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_index(name: str) -> None:
    call, arguments = CALLS[name]
    agree(call, *arguments)


def test_scatter_reduce() -> None:
    """torch_npu sends only a float32 sum that includes self to the device, the rest to the CPU."""
    x, i, s = numbers(4, 3), whole(3, 4, 5), numbers(4, 5)
    agree(lambda x, i, s: x.scatter_reduce(1, i, s, "sum"), x, i, s)
    agree(lambda x, i, s: x.scatter_reduce_(1, i, s, "sum"), x, i, s)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            agree(
                lambda x, i, s, o, r=reduce, n=include: torch.scatter_reduce(
                    x, 1, i, s, r, include_self=n, out=o
                ),
                x,
                i,
                s,
                torch.empty(4, 3),
            )


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool], ids=str
)
def test_moving_keeps_every_dtype(dtype: torch.dtype) -> None:
    x = (numbers(5, 4) * 3).to(dtype)
    agree(lambda x, i: x[i], x, whole(5, 7))
    agree(lambda x, i: x.gather(1, i), x, whole(4, 5, 2))
    agree(lambda x, i: x.index_select(0, i), x, whole(5, 3))
    agree(lambda i, w: F.embedding(i, w), whole(5, 3), x.float().half())


def test_an_index_out_of_range_is_an_error() -> None:
    x = torch.zeros(3, 2, device="npu")
    with pytest.raises(RuntimeError):
        x[torch.tensor([3]).npu()].cpu()


def test_the_vendors_own() -> None:
    import torch_npu

    x, i = numbers(5, 3), torch.tensor([[0], [4]])
    updated = torch_npu.npu_scatter_nd_update(x.npu(), i.npu(), torch.ones(2, 3).npu())
    torch.testing.assert_close(updated.cpu(), x.index_put((i[:, 0],), torch.ones(2, 3)))
    torch.testing.assert_close(torch_npu.npu_gather_sparse_index(x.npu(), i.npu()).cpu(), x[i])
    total = torch.ops.npu._npu_index_add(x.npu(), i[:, 0].npu(), torch.ones(2, 3).npu(), alpha=2)
    torch.testing.assert_close(total.cpu(), x.index_add(0, i[:, 0], torch.ones(2, 3), alpha=2))


def test_repeat_interleave_backward() -> None:
    agree(lambda x, r: x.repeat_interleave(r, 0), _x(4, 3), torch.tensor([1, 0, 3, 2]))
    agree(lambda x, r: x.repeat_interleave(r), numbers(4), torch.tensor([1, 0, 3, 2]))
    agree(torch.repeat_interleave, torch.tensor([1, 0, 3, 2]))
