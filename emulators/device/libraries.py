"""The C++ libraries of the emulated device, built on first use."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from hetero.emulators import build

ROOT = Path(__file__).parent
CORE = "libhetero_device.so"
BINDINGS = "hetero_device" + sysconfig.get_config_var("EXT_SUFFIX")


def target() -> build.Target:
    """The device, and its Python bindings."""
    return build.Target(
        "device",
        "the emulated device",
        ROOT,
        (
            build.Library(
                CORE,
                ("core/*.cpp",),
                includes=("include", "core"),
                flags=("-std=c++20", "-fvisibility=default"),
                torch=True,
                precompiled="include/torch.h",
            ),
            build.Library(
                BINDINGS,
                ("bindings/*.cpp",),
                includes=("include", "bindings"),
                flags=("-std=c++20",),
                links=("-lhetero_device", "-Wl,-rpath,$ORIGIN"),
                torch=True,
                python=True,
            ),
        ),
    )


def prepare(*, warnings: bool = False) -> Path:
    """Folder of the libraries.

    Raises:
        EmulatorError: they cannot be built; see :func:`hetero.emulators.build.build`.
    """
    return build.build(target(), warnings=warnings) / "lib64"
