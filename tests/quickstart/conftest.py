from __future__ import annotations

import pytest

pytest.importorskip("reasoning_gym", reason="the quickstart's problems need the extra 'quickstart'")

from hetero.quickstart import task


@pytest.fixture(scope="session")
def problems() -> task.Task:
    """A small task, made by the very code of the big one."""
    return task.build(train=40, held_out=12)
