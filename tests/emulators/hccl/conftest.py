from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulators.runtime import cann


@pytest.fixture(scope="session")
def libraries() -> Path:
    """The folder of the emulated CANN's libraries; tests are skipped where they cannot be made."""
    return cann.libraries()
