"""Pages are counted by who holds them, and keep what is in them while the pool grows."""

from __future__ import annotations

import pytest
import torch

from hetero.errors import RolloutError
from hetero.rollout.pages import PagePool


def test_a_page_is_free_when_its_last_holder_lets_go() -> None:
    pool = PagePool(4)
    page = pool.take()
    pool.hold([page])
    pool.release([page])
    assert pool.in_use == 1
    pool.release([page])
    assert pool.in_use == 0
    assert pool.take() == page


def test_growing_and_copying_keep_contents() -> None:
    pool = PagePool(2)
    rows = torch.randn(1, 3, 5)
    first = pool.take()
    keys, values = pool.layer(0, rows, rows)
    keys[first] = 7
    values[first] = 8
    taken = [pool.take() for _ in range(100)]
    keys, values = pool.layer(0, rows, rows)
    assert keys.shape[0] >= 101 and (keys[first] == 7).all() and (values[first] == 8).all()
    copied = pool.copy(first)
    assert copied not in (first, *taken)
    assert (keys[copied] == 7).all() and (values[copied] == 8).all()


def test_the_limit_is_an_error_that_says_what_to_do() -> None:
    pool = PagePool(2, limit=3)
    held = [pool.take() for _ in range(3)]
    with pytest.raises(RolloutError, match="all 3 pages of 2 tokens are in use; raise max_pages"):
        pool.take()
    pool.release(held)
    pool.take()


@pytest.mark.parametrize("size, limit", [(0, None), (1, 0)])
def test_impossible_pools(size: int, limit: int | None) -> None:
    with pytest.raises(RolloutError, match="page pool needs"):
        PagePool(size, limit)
