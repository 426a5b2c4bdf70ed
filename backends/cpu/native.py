"""Loads the compiled kernels, and says once what to do when they are not there."""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from types import ModuleType

from hetero.backends.cpu import isa

MODULE = "hetero.backends.cpu._kernels"


@cache
def load() -> ModuleType | None:
    """The kernels' module, set to the instruction set that :mod:`hetero.backends.cpu.isa` chose.

    Returns:
        None, after one warning, when the package was installed without them.

    Raises:
        BackendError: ``HETERO_CPU_ISA`` asks for what this CPU cannot run.
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
    module.set_isa(isa.detect())
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
