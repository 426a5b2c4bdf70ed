from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def libraries() -> Path:
    """The folder of the emulated CANN's libraries (HETERO_TEST_CANN: one that was built by other means)."""
    given = os.environ.get("HETERO_TEST_CANN")
    if given:
        return Path(given)
    from hetero.emulators.ascend import EMULATOR

    return EMULATOR.prepare() / "lib64"
