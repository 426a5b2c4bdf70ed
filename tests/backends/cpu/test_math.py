"""The vector functions against float64, over their whole range and at its ends."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
import torch
from torch import Tensor

INF = float("inf")


def run(kernels: ModuleType, function: str, x: Tensor) -> Tensor:
    x = x.float().contiguous()
    y = torch.empty_like(x)
    kernels.math(getattr(kernels, function), x.numel(), x.data_ptr(), y.data_ptr())
    return y


EXACT = {
    "EXP": torch.exp,
    "EXP_SOFTMAX": torch.exp,
    "TANH": torch.tanh,
    "SIGMOID": torch.sigmoid,
    "NORMAL_CDF": lambda x: 0.5 * torch.special.erfc(-x / math.sqrt(2)),
}
#: function, interval, units in the last place
CASES = [
    ("EXP", (-87.3, 88.3), 1.5),
    ("EXP_SOFTMAX", (-87.3, 0.0), 1.5),
    ("TANH", (-12.0, 12.0), 2.5),
    ("TANH", (-1e-3, 1e-3), 1.0),
    ("SIGMOID", (-80.0, 80.0), 2.5),
    ("NORMAL_CDF", (-3.0, 12.0), 6.0),
    # The rounding of x^2 / 2 alone, relative to the result, is x^2 / 4 units there.
    ("NORMAL_CDF", (-12.0, -3.0), 40.0),
]


@pytest.mark.parametrize(("function", "interval", "ulp"), CASES)
def test_accuracy(
    kernels: ModuleType,
    isa: str,
    generator: torch.Generator,
    function: str,
    interval: tuple[float, float],
    ulp: float,
) -> None:
    low, high = interval
    x = (torch.rand(100_003, generator=generator, dtype=torch.float64) * (high - low) + low).float()
    exact = EXACT[function](x.double())
    error = ((run(kernels, function, x).double() - exact) / exact).abs().nan_to_num(0.0).max().item()
    assert error <= ulp * torch.finfo(torch.float32).eps


@pytest.mark.parametrize(
    ("function", "x", "y"),
    [
        ("EXP", [-INF, -1e38, -200.0, 0.0, 200.0, 1e38, INF], [0.0, 0.0, 0.0, 1.0, INF, INF, INF]),
        ("EXP_SOFTMAX", [-INF, -1e38, -200.0, -0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0]),
        ("TANH", [-INF, -1e38, -20.0, 0.0, 20.0, 1e38, INF], [-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0]),
        ("SIGMOID", [-INF, -1e38, -200.0, 0.0, 200.0, INF], [0.0, 0.0, 0.0, 0.5, 1.0, 1.0]),
        ("NORMAL_CDF", [-INF, -1e38, -20.0, 0.0, 20.0, 1e38, INF], [0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0]),
    ],
)
def test_ends(kernels: ModuleType, isa: str, function: str, x: list[float], y: list[float]) -> None:
    assert run(kernels, function, torch.tensor(x)).tolist() == y


@pytest.mark.parametrize("function", EXACT)
def test_nan_goes_through_and_stays_in_its_lane(kernels: ModuleType, isa: str, function: str) -> None:
    payload = torch.tensor([0x7FC00000, 0x7FC00001, 0x7F800123, -1], dtype=torch.int32).view(torch.float32)
    x = torch.cat([torch.zeros(17), payload, torch.zeros(12)])
    assert run(kernels, function, x).isnan().tolist() == [False] * 17 + [True] * 4 + [False] * 12
