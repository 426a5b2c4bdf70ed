"""Emulators of vendors' runtimes: vendors' own PyTorch packages, run on a machine that has no such chip.

They are for development and tests. They compute on the CPU; none is ever chosen by itself, all reports say
"emulated", and no speed is taken from one. ``hetero emulate NAME -- COMMAND`` runs a command in an emulated
environment; docs/emulators.md says what that proves and what it cannot.
"""

from __future__ import annotations

from hetero.emulators.environment import environment, running
from hetero.emulators.registry import Emulator, emulator, names

__all__ = ["Emulator", "emulator", "environment", "names", "running"]
