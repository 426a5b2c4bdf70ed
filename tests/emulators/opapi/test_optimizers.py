from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import numbers

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

SHAPES = [(3, 5), (7,), (2, 2, 2)]


def _steps(
    kind: type[torch.optim.Optimizer], device: str, dtype: torch.dtype, **kwargs: Any
) -> list[torch.Tensor]:
    params = [torch.nn.Parameter(numbers(*s, seed=i).to(dtype).to(device)) for i, s in enumerate(SHAPES)]
    optimizer = kind(params, **kwargs)
    for step in range(4):
        for i, p in enumerate(params):
            p.grad = numbers(*p.shape, seed=10 * step + i + 1).to(dtype).to(device)
        optimizer.step()
    state = [t for p in params for t in optimizer.state[p].values() if isinstance(t, torch.Tensor)]
    return [p.detach().cpu() for p in params] + [t.cpu() for t in state]


@pytest.mark.parametrize("how", ["plain", "foreach", "fused"])
@pytest.mark.parametrize(
    "kwargs", [{}, {"weight_decay": 0.1, "lr": 0.01}, {"amsgrad": True}, {"maximize": True}], ids=str
)
def test_adamw(kwargs: dict[str, Any], how: str) -> None:
    flags = {"plain": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[how]
    expected = _steps(torch.optim.AdamW, "cpu", torch.float32, **kwargs)
    actual = _steps(torch.optim.AdamW, "npu", torch.float32, **kwargs, **flags)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-6)


def test_fused_adamw_rounds_bfloat16_once_a_step() -> None:
    actual = _steps(torch.optim.AdamW, "npu", torch.bfloat16, fused=True, lr=0.01)
    expected = _steps(torch.optim.AdamW, "cpu", torch.float32, lr=0.01)
    for a, e in zip(actual[:3], expected[:3], strict=True):
        torch.testing.assert_close(a.float(), e, rtol=2e-2, atol=2e-2)


def test_fused_adamw_ignores_the_gradient_scale() -> None:
    """torch_npu accepts grad_scale and found_inf and does nothing with them: the trap of the fact sheet."""
    p = [torch.ones(4).npu()]
    state = [torch.zeros(4).npu()], [torch.zeros(4).npu()]
    torch._fused_adamw_(  # type: ignore[attr-defined]
        p,
        [torch.full((4,), float("inf")).npu()],
        *state,
        [],
        [torch.ones((), device="npu")],
        lr=0.1,
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.0,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
        grad_scale=torch.tensor(2.0).npu(),
        found_inf=torch.tensor(1.0).npu(),
    )
    assert not torch.isfinite(p[0].cpu()).any()


@pytest.mark.parametrize(
    "kwargs",
    [
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"momentum": 0.5, "dampening": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("how", ["foreach", "fused"])
def test_sgd(how: str, kwargs: dict[str, Any]) -> None:
    if how == "fused":
        try:
            torch.optim.SGD([torch.zeros(2, device="npu", requires_grad=True)], fused=True)
        except RuntimeError:
            pytest.skip("torch offers no fused SGD for this device")
    flags = {how: True}
    for a, e in zip(
        _steps(torch.optim.SGD, "npu", torch.float32, lr=0.1, **kwargs, **flags),
        _steps(torch.optim.SGD, "cpu", torch.float32, lr=0.1, **kwargs),
        strict=True,
    ):
        torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("foreach", [False, True])
def test_clipping(foreach: bool) -> None:
    def clipped(device: str) -> list[torch.Tensor]:
        params = [torch.nn.Parameter(torch.zeros(*s, device=device)) for s in SHAPES]
        for i, p in enumerate(params):
            p.grad = numbers(*p.shape, seed=i).to(device)
        norm = torch.nn.utils.clip_grad_norm_(params, 0.7, foreach=foreach)
        torch.nn.utils.clip_grad_value_(params, 0.1, foreach=foreach)
        return [norm.cpu()] + [p.grad.cpu() for p in params if p.grad is not None]

    for a, e in zip(clipped("npu"), clipped("cpu"), strict=True):
        torch.testing.assert_close(a, e)


def test_other_optimizers() -> None:
    for kind in (torch.optim.Adam, torch.optim.Adagrad, torch.optim.RMSprop):
        actual, expected = (_steps(kind, d, torch.float32, lr=0.01) for d in ("npu", "cpu"))
        for a, e in zip(actual, copy.copy(expected), strict=True):
            torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-6, msg=kind.__name__)
