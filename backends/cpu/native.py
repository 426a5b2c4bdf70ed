"""Loads the compiled kernels, and says once what to do when they are not there."""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from types import ModuleType

from hetero.backends.cpu import isa
from hetero.errors import BackendError

MODULE = "hetero.backends.cpu._kernels"


@cache
def load() -> ModuleType | None:
    """The kernels' module, set to the instruction set that :mod:`hetero.backends.cpu.isa` chose.

    Returns:
        None, after one warning, when the package was installed without them.

    Raises:
        BackendError: ``HETERO_CPU_ISA`` asks for what this CPU or these kernels cannot run.
    """
    try:
        module = importlib.import_module(MODULE)
    except ImportError as error:
        warnings.warn(
            f"hetero's CPU kernels are not usable ({error}); ops run on plain torch, which is right but slower. "
            "To build them, install a C++17 compiler and then hetero again (pip install --force-reinstall "
            "--no-deps hetero, or pip install -e . in a checkout).",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    level, built = isa.detect(), module.available_isas()
    if level not in built:
        raise BackendError(
            f"hetero's CPU kernels have nothing built for {level} that runs here, only for {', '.join(built)}: "
            "set HETERO_CPU_ISA to one of these, or install hetero again on this machine"
        )
    module.set_isa(level)
    return module


def kernels() -> ModuleType:
    """The kernels' module, for the wrappers, which are only chosen when it is there.

    Raises:
        ImportError: it is not.
    """
    module = load()
    if module is None:
        raise ImportError(f"{MODULE} is not built")
    return module
