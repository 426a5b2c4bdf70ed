from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

F = torch.nn.functional


def _x(*shape: int, seed: int = 0) -> torch.Tensor:
    return numbers(*shape, seed=seed, grad=True)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "conv1d": (F.conv1d, (_x(2, 3, 9), _x(4, 3, 3), _x(4))),
    "conv1d_causal": (lambda x, w: F.conv1d(x, w, padding=2, groups=3)[..., :-2], (_x(2, 3, 9), _x(3, 1, 3))),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
        (_x(2, 3, 8, 7), _x(4, 3, 3, 3), _x(4)),
    ),
    "conv2d_no_bias": (lambda x, w: F.conv2d(x, w, dilation=2), (_x(2, 3, 8, 7), _x(4, 3, 3, 3))),
    "conv_transpose2d": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, output_padding=1),
        (_x(2, 3, 4, 5), _x(3, 4, 3, 3), _x(4)),
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (_x(2, 3, 8, 6),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (_x(2, 3, 8, 6),)),
    "max_pool2d_overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1), (_x(2, 3, 8, 6),)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (_x(2, 3, 8, 7),)),
    "unfold": (lambda x: F.unfold(x, 2, padding=1), (_x(2, 3, 5, 4),)),
    "fold": (lambda x: F.fold(x, (5, 4), 2), (_x(2, 12, 12),)),
    "nearest1d": (lambda x: F.interpolate(x, 9), (_x(2, 3, 5),)),
    "nearest2d": (lambda x: F.interpolate(x, scale_factor=2), (_x(2, 3, 4, 5),)),
    "linear": (lambda x: F.interpolate(x, 9, mode="linear"), (_x(2, 3, 5),)),
    "bilinear": (lambda x: F.interpolate(x, (7, 9), mode="bilinear"), (_x(2, 3, 4, 5),)),
    "bilinear_corners": (
        lambda x: F.interpolate(x, (7, 9), mode="bilinear", align_corners=True),
        (_x(2, 3, 4, 5),),
    ),
    "bicubic": (lambda x: F.interpolate(x, (7, 9), mode="bicubic"), (_x(2, 3, 4, 5),)),
    "reflect1d": (lambda x: F.pad(x, (2, 1), mode="reflect"), (_x(2, 3, 5),)),
    "reflect2d": (lambda x: F.pad(x, (2, 1, 1, 0), mode="reflect"), (_x(2, 3, 4, 5),)),
    "reflect3d": (lambda x: F.pad(x, (1, 0, 1, 1, 0, 1), mode="reflect"), (_x(2, 3, 3, 4, 5),)),
    "replicate3d": (lambda x: F.pad(x, (1, 0, 1, 1, 0, 1), mode="replicate"), (_x(2, 3, 3, 4, 5),)),
    "replicate1d": (lambda x: F.pad(x, (2, 1), mode="replicate"), (_x(2, 3, 5),)),
    "replicate2d": (lambda x: F.pad(x, (2, 1, 1, 0), mode="replicate"), (_x(2, 3, 4, 5),)),
}


@pytest.mark.parametrize("name", CALLS)
def test_layers(name: str) -> None:
    call, arguments = CALLS[name]
    agree(call, *arguments, close=(1e-4, 1e-4))
