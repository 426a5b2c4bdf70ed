"""Lists of tensors in one call: what torch's optimizers and gradient clipping use."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers
from tests.emulators.opapi.table import ran

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

#: operator, call on lists l (any numbers), k and j (positive)
CALLS = [
    *(
        (f"{name.capitalize()}", f"torch._foreach_{name}({lists})")
        for lists, names in {
            "l": "abs atan cos cosh erf erfc exp expm1 neg sigmoid sign sin sinh tan tanh",
            "k": "log log10 log1p log2 reciprocal sqrt",
            "u": "acos asin",
        }.items()
        for name in names.split()
    ),
    *(
        ("RoundOffNumberV2", f"torch._foreach_{name}(l)")
        for name in ("round", "floor", "ceil", "trunc", "frac")
    ),
    ("AddScalarV2", "torch._foreach_add(l, 2.0)"),
    ("SubScalarV2", "torch._foreach_sub(l, 2.0)"),
    ("MulScalarV2", "torch._foreach_mul(l, 2.0)"),
    ("DivScalarV2", "torch._foreach_div(l, 2.0)"),
    ("PowScalarV2", "torch._foreach_pow(l, 2.0)"),
    ("MaximumScalarV2", "torch._foreach_maximum(l, 0.3)"),
    ("MinimumScalarV2", "torch._foreach_minimum(l, 0.3)"),
    ("MaximumScalarV2", "torch._foreach_clamp_min(l, 0.3)"),
    ("AddScalarList", "torch._foreach_add(l, [1.0, 2.0, 3.0])"),
    ("SubScalarList", "torch._foreach_sub(l, [1.0, 2.0, 3.0])"),
    ("MulScalarList", "torch._foreach_mul(l, [1.0, 2.0, 3.0])"),
    ("DivScalarList", "torch._foreach_div(l, [1.0, 2.0, 3.0])"),
    ("PowScalarList", "torch._foreach_pow(k, [1.0, 2.0, 3.0])"),
    ("MaximumScalarList", "torch._foreach_maximum(l, [0.1, 0.2, 0.3])"),
    ("MinimumScalarList", "torch._foreach_minimum(l, [0.1, 0.2, 0.3])"),
    ("PowScalarAndTensor", "torch._foreach_pow(2.0, l)"),
    ("AddListV2", "torch._foreach_add(l, k, alpha=2.0)"),
    ("SubListV2", "torch._foreach_sub(l, k, alpha=2.0)"),
    ("MulList", "torch._foreach_mul(l, k)"),
    ("DivList", "torch._foreach_div(l, k)"),
    ("PowList", "torch._foreach_pow(k, l)"),
    ("MaximumList", "torch._foreach_maximum(l, k)"),
    ("MinimumList", "torch._foreach_minimum(l, k)"),
    ("LerpList", "torch._foreach_lerp(l, k, j)"),
    ("LerpScalar", "torch._foreach_lerp(l, k, 0.3)"),
    ("AddcmulScalarV2", "torch._foreach_addcmul(l, k, j, 0.5)"),
    ("AddcdivScalarV2", "torch._foreach_addcdiv(l, k, j, 0.5)"),
    ("AddcmulScalarList", "torch._foreach_addcmul(l, k, j, torch.tensor([1.0, 2.0, 3.0]))"),
    ("AddcdivScalarList", "torch._foreach_addcdiv(l, k, j, torch.tensor([1.0, 2.0, 3.0]))"),
    ("Norm", "torch._foreach_norm(l)"),
    ("Norm", "torch._foreach_norm(l, 1)"),
    ("ZeroInplace", "torch._foreach_zero_(l)"),
    ("Copy", "torch._foreach_copy_(l, k)"),
    ("AddListV2", "torch._foreach_add_(l, k)"),
    ("AddScalarV2", "torch._foreach_add_(l, 2.0)"),
    ("SqrtX", "torch._foreach_sqrt_(k)"),
    ("LerpScalar", "torch._foreach_lerp_(l, k, 0.3)"),
    ("AddcdivScalarV2", "torch._foreach_addcdiv_(l, k, j, 0.5)"),
    ("RoundOffNumberV2", "torch._foreach_floor_(l)"),
]


def _lists(dtype: torch.dtype) -> dict[str, list[torch.Tensor]]:
    shapes = [(3, 4), (5,), (1, 2, 2)]

    def make(seed: int) -> list[torch.Tensor]:
        return [numbers(*shape, seed=seed) for shape in shapes]

    made = {
        "l": make(1),
        "k": [x.abs() + 0.2 for x in make(2)],
        "j": [x.abs() + 0.2 for x in make(3)],
        "u": [x.tanh() for x in make(4)],
    }
    return {name: [x.to(dtype) for x in values] for name, values in made.items()}


def _evaluate(expression: str, given: dict[str, Any]) -> Any:
    return eval(expression, {"torch": torch, **given})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("operator", "expression"), CALLS, ids=lambda x: str(x).replace(" ", ""))
def test_foreach(operator: str, expression: str, dtype: torch.dtype) -> None:
    name = "aclnnForeach" + operator.removesuffix("X")
    before = ran()
    agree(lambda given: _evaluate(expression, given), _lists(dtype))
    assert ran().get(name, 0) > before.get(name, 0), f"{name} did not run"


def test_more_tensors_than_one_call_takes() -> None:
    many = [numbers(3, seed=i) for i in range(120)]
    agree(torch._foreach_mul, many, 2.0)
    agree(torch._foreach_add, many, many)
    agree(torch._foreach_norm, many)


def test_clipping_and_adamw() -> None:
    def step(given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        parameters = [torch.nn.Parameter(v.clone()) for v in given.values()]
        for p in parameters:
            p.grad = p.detach() * 3
        total = torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer = torch.optim.AdamW(parameters, lr=0.1, foreach=True)
        optimizer.step()
        optimizer.step()
        return [total, *(p.detach() for p in parameters)]

    agree(step, {str(i): numbers(3, 4, seed=i) for i in range(4)}, backward=False)


@pytest.mark.parametrize("bad", [False, True])
def test_gradient_scaler(bad: bool) -> None:
    gradients = [numbers(3, 4), numbers(5, seed=1)]
    if bad:
        gradients[1][2] = float("inf")

    def unscale(given: list[torch.Tensor], found: torch.Tensor, inverse: torch.Tensor) -> list[torch.Tensor]:
        torch._amp_foreach_non_finite_check_and_unscale_(given, found, inverse)
        return [found, *given]

    agree(unscale, gradients, torch.zeros(1), torch.tensor([0.5]), backward=False)
    scale, growth = torch.tensor([8.0]), torch.tensor([2], dtype=torch.int32)
    agree(torch._amp_update_scale_, scale, growth, torch.tensor([float(bad)]), 2.0, 0.5, 3, backward=False)
    assert {"aclnnAmpUpdateScale", "aclnnForeachNonFiniteCheckAndUnscale"} <= ran().keys()
