"""Which emulators there are, and what each has to offer."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetero.accelerator.host import Host
from hetero.errors import EmulatorError

#: name -> the module that describes it: a constant ``EMULATOR``. Imported when asked for.
_MODULES = {
    "ascend": "hetero.emulators.ascend",
    "biren": "hetero.emulators.biren",
    "cuda": "hetero.emulators.cuda",
    "metax": "hetero.emulators.metax",
}


@dataclass(frozen=True)
class Setting:
    """One setting of an emulator: the variable its libraries read, and what may be given."""

    variable: str
    help: str


class Emulator:
    """A vendor's runtime, emulated. Subclass it; one instance a vendor, named ``EMULATOR``."""

    #: What users write: ``hetero emulate NAME``.
    name: str = ""
    #: One line for ``hetero emulate --list``.
    about: str = ""
    #: What may be set, by the name that the command line and the fixtures use.
    settings: Mapping[str, Setting] = {}

    def prepare(self, *, wheel: Path | None = None, warnings: bool = False) -> Path:
        """Fetch and build what is missing; returns the folder that holds the result.

        Raises:
            EmulatorError: something it needs is missing; the message says what and how to get it.
        """
        raise NotImplementedError

    def active(self, host: Host) -> bool:
        """Whether what ``host`` would load is the emulator, not the vendor's own."""
        raise NotImplementedError

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """What to change in ``env`` for a process to run emulated (after :meth:`prepare`)."""
        raise NotImplementedError

    def variant(self, name: str) -> Emulator:
        """The emulator of what users write ``NAME:name`` for: another product line.

        Raises:
            EmulatorError: there is none of that name.
        """
        raise EmulatorError(f"emulator {self.name!r} has no variants, and {self.name}:{name} was asked for")

    def coverage(self, ran: frozenset[str]) -> list[dict[str, Any]]:
        """A row for each operator that the vendor's package can call: implemented, and exercised (in ``ran``)."""
        raise EmulatorError(f"emulator {self.name!r} has no table of operators")


def names() -> list[str]:
    """Every emulator there is."""
    return sorted(_MODULES)


def emulator(name: str) -> Emulator:
    """Emulator ``name``, or its variant where ``name`` is ``"biren:br1xx"``.

    Raises:
        EmulatorError: there is none of that name.
    """
    base, _, variant = name.partition(":")
    if base not in _MODULES:
        raise EmulatorError(f"there is no emulator {name!r}; there is: {', '.join(names())}")
    found: Emulator = importlib.import_module(_MODULES[base]).EMULATOR
    return found.variant(variant) if variant else found
