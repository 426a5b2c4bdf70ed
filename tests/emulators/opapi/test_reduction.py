"""Reductions and scans, over all dimensions, some and one."""

from __future__ import annotations

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers
from tests.emulators.opapi.table import Row, check, ran, rows

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

REDUCTIONS = rows("""
ReduceSum                        | FIB | torch.sum(a)
ReduceSum                        | FI  | torch.sum(a, (0, -1), keepdim=True)
ReduceSum                        | FI  | torch.sum(a, 1, dtype=torch.float32)
ReduceNansum                     | F   | torch.nansum(a / (n - 1).clamp(max=1) * (n - 1).clamp(max=1), 0)
Mean                             | F   | torch.mean(a)
Mean                             | F   | a.mean(-1, keepdim=True)
Mean                             | F   | a.mean(0, dtype=torch.float32)
Prod                             | F   | torch.prod(b)
ProdDim                          | FL  | torch.prod(b, 0)
ProdDim                          | F   | torch.prod(b, 1, keepdim=True)
Max                              | FI  | torch.max(a)
Min                              | FI  | torch.min(a)
MaxDim                           | F   | torch.max(a, 1)
MaxDim                           | F   | torch.max(a, 0, keepdim=True)
MinDim                           | F   | torch.min(a, 1)
Amax                             | FI  | torch.amax(a, (0, 1))
Amin                             | FI  | torch.amin(a, 1, keepdim=True)
Aminmax                          | FI  | torch.aminmax(a)
Aminmax                          | FI  | torch.aminmax(a, dim=1, keepdim=True)
AminmaxAll                       | FI  | torch._aminmax(a.detach())
AminmaxDim                       | FI  | torch._aminmax(a.detach(), 1)
ArgMax                           | F   | torch.argmax(a)
ArgMax                           | F   | torch.argmax(a, 0)
ArgMin                           | F   | torch.argmin(a, 1, keepdim=True)
All                              | FIB | torch.all(a)
All                              | FIB | torch.all(m, 0)
Any                              | FIB | torch.any(a, 1, keepdim=True)
Any                              | FIB | torch.any(m)
VarCorrection                    | F   | torch.var(a, 1)
VarCorrection                    | F   | torch.var(a, (0, 1), correction=0, keepdim=True)
VarCorrection                    | F   | torch.var(a, 1, correction=2)
Std                              | F   | torch.std(a)
Std                              | F   | torch.std(a, 1, correction=2, keepdim=True)
Std                              | F   | torch.std(a, 0, correction=0)
VarMean                          | F   | torch.var_mean(a, 1, correction=0)
VarMean                          | F   | torch.var_mean(a, 1, correction=2)
StdMeanCorrection                | F   | torch.std_mean(a, 1, correction=2, keepdim=True)
LinalgVectorNorm                 | F   | torch.linalg.vector_norm(b, 2, 1)
LinalgVectorNorm                 | F   | torch.linalg.vector_norm(b, float('inf'))
LinalgVectorNorm                 | F   | torch.linalg.vector_norm(b, 1, dtype=torch.float32)
LogSumExp                        | F   | torch.logsumexp(a, 1)
LogSumExp                        | F   | torch.logsumexp(a, (0, 1), keepdim=True)
Renorm                           | f   | torch.renorm(a, 2, 0, 1.0)
InplaceRenorm                    | f   | a.renorm_(2, 0, 1.0)
Cumsum                           | FI  | torch.cumsum(a, 1)
Cumsum                           | F   | a.cumsum_(0)
Cumprod                          | F   | torch.cumprod(b, 0)
Cummax                           | F   | torch.cummax(a, 1)
Cummin                           | F   | torch.cummin(a, 0)
NeScalar                         | FI  | torch.count_nonzero(a, 1)
ReduceSum                        | F   | torch.nanmean(a, 1)
""")


@pytest.mark.parametrize("row", REDUCTIONS, ids=str)
def test_reduction(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("p", [0, 1, 2, 3, float("inf"), float("-inf")])
@pytest.mark.parametrize("keepdim", [False, True])
def test_norm(p: float, keepdim: bool) -> None:
    agree(lambda x: torch.norm(x, p, 1, keepdim), numbers(3, 4, grad=p != 0))
    agree(lambda x: torch.ops.aten.norm.ScalarOpt_dim(x, p, [1], keepdim), numbers(3, 4))
    assert {"aclnnNorm", "aclnnLinalgVectorNorm"} <= ran().keys()


def test_trace() -> None:
    agree(torch.trace, numbers(4, 5))


def test_many_dimensions() -> None:
    agree(lambda x: x.sum((0, 2, 4)), numbers(2, 3, 2, 3, 2, grad=True))
    agree(lambda x: x.permute(3, 1, 0, 2).amax((1, 2)), numbers(2, 3, 2, 3))
