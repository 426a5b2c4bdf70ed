from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers, whole

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

DISTINCT = torch.randperm(24, generator=torch.Generator().manual_seed(1)).reshape(4, 6)
TIED = whole(3, 4, 9)

CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sort": (lambda x: torch.sort(x, 1), (DISTINCT.float().requires_grad_(),)),
    "sort_descending_dim0": (lambda x: torch.sort(x, 0, descending=True), (DISTINCT.float(),)),
    "sort_stable": (lambda x: torch.sort(x, dim=1, stable=True), (TIED,)),
    "sort_empty": (lambda x: torch.sort(x), (numbers(0),)),
    "sort_strided": (lambda x: torch.sort(x.t(), 1), (DISTINCT.float(),)),
    "argsort": (lambda x: torch.argsort(x, 1), (DISTINCT,)),
    "argsort_stable": (lambda x: torch.argsort(x, dim=1, stable=True), (TIED,)),
    "topk": (lambda x: torch.topk(x, 3, 1), (DISTINCT.float().requires_grad_(),)),
    "topk_smallest": (lambda x: torch.topk(x, 2, 0, largest=False), (DISTINCT.float(),)),
    "topk_all": (lambda x: torch.topk(x, 6), (DISTINCT.float(),)),
    "topk_bfloat16": (lambda x: torch.topk(x, 3), (DISTINCT.bfloat16(),)),
    "kthvalue": (lambda x: torch.kthvalue(x, 2, 1), (DISTINCT.float(),)),
    "kthvalue_keepdim": (lambda x: torch.kthvalue(x, 2, 0, keepdim=True), (DISTINCT,)),
    "median": (torch.median, (DISTINCT.float(),)),
    "median_dim": (lambda x: torch.median(x, 1), (DISTINCT.float().requires_grad_(),)),
    "nanmedian": (torch.nanmedian, (DISTINCT.float(),)),
    "nanmedian_dim": (lambda x: torch.nanmedian(x, 1), (DISTINCT.float(),)),
    "unique": (torch.unique, (TIED,)),
    "unique_inverse": (lambda x: torch.unique(x, return_inverse=True), (TIED,)),
    "unique_counts": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), (TIED,)),
    "unique_float": (torch.unique, (TIED.float(),)),
    "unique_dim": (lambda x: torch.unique(x, dim=0), (whole(2, 9, 2),)),
    "unique_consecutive": (torch.unique_consecutive, (TIED.flatten().sort().values,)),
    "unique_consecutive_counts": (
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        (TIED.flatten().sort().values,),
    ),
    "unique_consecutive_dim": (
        lambda x: torch.unique_consecutive(x, return_counts=True, dim=0),
        (torch.tensor([[1, 2], [1, 2], [3, 4]]),),
    ),
    "searchsorted": (torch.searchsorted, (torch.arange(6.0), numbers(3, 4) * 4)),
    "searchsorted_right": (
        lambda s, x: torch.searchsorted(s, x, right=True, out_int32=True),
        (torch.arange(6), whole(7, 9)),
    ),
    "searchsorted_rows": (torch.searchsorted, (numbers(3, 6).sort(1).values, numbers(3, 4))),
    "searchsorted_scalar": (lambda s: torch.searchsorted(s, 2), (torch.arange(6),)),
    "bucketize": (torch.bucketize, (numbers(3, 4) * 4, torch.arange(6.0))),
    "bucketize_right": (lambda x, b: torch.bucketize(x, b, right=True), (whole(7, 9), torch.arange(6))),
    "bincount": (torch.bincount, (whole(5, 20),)),
    "bincount_minlength": (lambda x: torch.bincount(x, minlength=9), (whole(5, 20),)),
    "bincount_weights": (torch.bincount, (whole(5, 20), numbers(20))),
    "histc": (lambda x: torch.histc(x, 5, -2, 2), (numbers(50),)),
    "histc_own_range": (lambda x: torch.histc(x, 7), (numbers(50),)),
    "isin": (torch.isin, (whole(9, 12), torch.tensor([1, 4, 7]))),
    "multisort": (lambda x: x[x[:, 0].argsort()], (DISTINCT,)),
    "cdist": (torch.cdist, (numbers(4, 3), numbers(5, 3))),
    "cdist_p3": (lambda a, b: torch.cdist(a, b, p=3), (numbers(4, 3, grad=True), numbers(5, 3, grad=True))),
    "cdist_p1": (lambda a, b: torch.cdist(a, b, p=1), (numbers(4, 3), numbers(5, 3))),
    "pdist": (torch.pdist, (numbers(4, 3),)),
}


@pytest.mark.parametrize("name", CALLS)
def test_order(name: str) -> None:
    call, arguments = CALLS[name]
    agree(call, *arguments)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.uint8], ids=str
)
def test_dtypes(dtype: torch.dtype) -> None:
    agree(lambda x: torch.sort(x, 1), DISTINCT.to(dtype))
    agree(lambda x: torch.topk(x, 2, 1), DISTINCT.to(dtype))
