"""The environment of emulated processes, for ``spawn``."""

from __future__ import annotations

import os

import pytest

from hetero.emulators.environment import environment
from hetero.errors import EmulatorError


def emulated(**settings: object) -> dict[str, str]:
    """What an emulated process's environment has beyond this one's; skips the test where it cannot be made."""
    try:
        whole = environment("ascend", **settings)
    except EmulatorError as error:
        pytest.skip(str(error))
    return {k: v for k, v in whole.items() if os.environ.get(k) != v}
