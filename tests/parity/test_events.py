"""The distance of two tensors by what is kept of them is their distance."""

from __future__ import annotations

import math

import pytest
import torch

from hetero.parity.events import SAMPLE, Event, distance, places, summary


def event(tensor: torch.Tensor) -> Event:
    return Event(1, "forward", "", "op", 0, 0, **summary(tensor))


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 64, 130), (5000,), (3, 4096), (0,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_distance(shape, dtype, generator):
    a = torch.randn(shape, generator=generator)
    b = (a + 0.05 * torch.randn(shape, generator=generator)).to(dtype)
    right = float((a.to(dtype).double() - b.double()).norm()) / max(
        float(a.norm()), float(b.double().norm()), 1e-300
    )
    got = distance(event(a.to(dtype)), event(b))
    assert right / 3 <= got <= 3 * right  # of 16 projections


def test_one_element_of_many_is_seen(generator):
    a = torch.randn(100_000, generator=generator)
    b = a.clone()
    b[77_777] += 3
    right = 3 / float(b.norm())
    assert distance(event(a), event(b)) == pytest.approx(
        right, rel=1e-6
    )  # signs do not change a single square


def test_layout_and_equal_values_are_no_distance(generator):
    a = torch.randn(6, 7, generator=generator)
    assert distance(event(a.t()), event(a.t().contiguous())) == 0
    assert distance(event(a), event(a.clone())) == 0


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        (torch.tensor([1, 2]), torch.tensor([1, 2]), 0.0),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), math.inf),
        (torch.tensor([1.0, math.inf]), torch.tensor([1.0, math.inf]), 0.0),
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0, 2.0]), math.inf),
        (torch.ones(2), torch.ones(3), math.inf),
        (torch.ones(2), torch.ones(2, dtype=torch.int64), math.inf),
    ],
)
def test_what_is_equal_or_not(a, b, apart):
    assert distance(event(a), event(b)) == apart


@pytest.mark.parametrize("elements", [0, 1, 2, SAMPLE, SAMPLE + 1, 10**6])
def test_places(elements):
    found = places(elements)
    assert len(found) == len(set(found)) == min(elements, SAMPLE)
    assert not found or (found[0] == 0 and found[-1] == elements - 1)
