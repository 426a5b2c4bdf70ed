from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

N = numbers


def _g(*shape: int, **kw: Any) -> torch.Tensor:
    return numbers(*shape, grad=True, **kw)


CALLS: dict[str, Any] = {
    "mm": (torch.mm, lambda t: (_g(3, 5, dtype=t), _g(5, 7, dtype=t))),
    "mm_transposed": (lambda a, b: torch.mm(a.t(), b.t()), lambda t: (_g(5, 3, dtype=t), _g(7, 5, dtype=t))),
    "mm_empty": (torch.mm, lambda t: (_g(0, 5, dtype=t), _g(5, 7, dtype=t))),
    "mm_no_inner": (torch.mm, lambda t: (_g(3, 0, dtype=t), _g(0, 7, dtype=t))),
    "matmul_batched": (torch.matmul, lambda t: (_g(2, 3, 4, dtype=t), _g(4, 5, dtype=t))),
    "matmul_broadcast": (torch.matmul, lambda t: (_g(2, 1, 3, 4, dtype=t), _g(3, 4, 5, dtype=t))),
    "matmul_vector": (torch.matmul, lambda t: (_g(2, 3, 4, dtype=t), _g(4, dtype=t))),
    "bmm": (torch.bmm, lambda t: (_g(2, 3, 4, dtype=t), _g(2, 4, 5, dtype=t))),
    "bmm_strided": (
        lambda a, b: torch.bmm(a[:, ::2], b),
        lambda t: (_g(2, 6, 4, dtype=t), _g(2, 4, 5, dtype=t)),
    ),
    "mv": (torch.mv, lambda t: (_g(3, 4, dtype=t), _g(4, dtype=t))),
    "dot": (torch.dot, lambda t: (_g(9, dtype=t), _g(9, dtype=t, seed=1))),
    "vdot": (torch.vdot, lambda t: (_g(9, dtype=t), _g(9, dtype=t, seed=1))),
    "addmm": (
        lambda s, a, b: torch.addmm(s, a, b, beta=0.5, alpha=2),
        lambda t: (_g(3, 5, dtype=t), _g(3, 4, dtype=t), _g(4, 5, dtype=t)),
    ),
    "addmm_bias": (torch.addmm, lambda t: (_g(5, dtype=t), _g(3, 4, dtype=t), _g(4, 5, dtype=t))),
    "addmm_beta_zero": (
        lambda s, a, b: torch.addmm(s * float("nan"), a, b, beta=0),
        lambda t: (N(3, 5, dtype=t), _g(3, 4, dtype=t), _g(4, 5, dtype=t)),
    ),
    "addmm_": (
        lambda s, a, b: s.addmm_(a, b, beta=0.5, alpha=3),
        lambda t: (N(3, 5, dtype=t), N(3, 4, dtype=t), N(4, 5, dtype=t)),
    ),
    "addmv": (
        lambda s, a, b: torch.addmv(s, a, b, beta=0.5, alpha=2),
        lambda t: (_g(3, dtype=t), _g(3, 4, dtype=t), _g(4, dtype=t)),
    ),
    "baddbmm": (
        lambda s, a, b: torch.baddbmm(s, a, b, beta=0.5, alpha=2),
        lambda t: (_g(2, 3, 5, dtype=t), _g(2, 3, 4, dtype=t), _g(2, 4, 5, dtype=t)),
    ),
    "addbmm": (
        lambda s, a, b: torch.addbmm(s, a, b, beta=0.5, alpha=2),
        lambda t: (_g(3, 5, dtype=t), _g(2, 3, 4, dtype=t), _g(2, 4, 5, dtype=t)),
    ),
    "addr": (
        lambda s, a, b: torch.addr(s, a, b, beta=0.5, alpha=2),
        lambda t: (_g(3, 5, dtype=t), _g(3, dtype=t), _g(5, dtype=t)),
    ),
    "addr_": (
        lambda s, a, b: s.addr_(a, b, alpha=2),
        lambda t: (N(3, 5, dtype=t), N(3, dtype=t), N(5, dtype=t)),
    ),
    "outer": (torch.outer, lambda t: (_g(3, dtype=t), _g(5, dtype=t))),
    "linear": (
        torch.nn.functional.linear,
        lambda t: (_g(2, 3, 4, dtype=t), _g(5, 4, dtype=t), _g(5, dtype=t)),
    ),
    "einsum": (
        lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b),
        lambda t: (_g(2, 3, 4, 5, dtype=t), _g(2, 3, 6, 5, dtype=t)),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_products(name: str, dtype: torch.dtype) -> None:
    call, arguments = CALLS[name]
    agree(call, *arguments(dtype), close=(3e-5, 3e-5) if dtype == torch.float32 else (3e-2, 6e-2))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float64], ids=str)
def test_the_cube_has_no_integers_and_no_doubles(dtype: torch.dtype) -> None:
    x = torch.empty(3, 3, dtype=dtype, device="npu")
    with pytest.raises(RuntimeError):
        x @ x
        torch.npu.synchronize()


def _spread(n: int) -> torch.Tensor:
    return numbers(n, n) + n * torch.eye(n)


def test_small_linear_algebra() -> None:
    a = _spread(4)
    agree(torch.inverse, a)
    agree(torch.linalg.cholesky, a @ a.t())
    agree(lambda x: torch.linalg.qr(x), _spread(3))
    agree(lambda x, y: torch.linalg.cross(x, y), numbers(5, 3), numbers(5, 3, seed=1))
    agree(lambda x: torch.linalg.svd(x).S, numbers(4, 3))
    agree(lambda x, y: torch.triangular_solve(y, x), torch.triu(_spread(3)), numbers(3, 2))
