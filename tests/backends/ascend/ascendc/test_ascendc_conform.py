"""Every sample of every op's declaration, on tiles as large as the unified buffer allows and on small ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hetero.backends.ascend import ascendc


@pytest.mark.parametrize("op", sorted(i.op for i in ascendc.implementations("test")))
def test_conforms(check: Callable[..., None], op: str) -> None:
    check(op)


@pytest.mark.parametrize("op", sorted(i.op for i in ascendc.implementations("test")))
def test_conforms_on_small_tiles(check: Callable[..., None], on: Callable[..., None], op: str) -> None:
    on(cores=3, unified_buffer=5120)
    check(op)
