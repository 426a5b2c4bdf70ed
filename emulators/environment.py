"""The environment of an emulated process, and how hetero's own commands get into one.

Libraries and the vendor's package must be in place before Python starts, so a process is emulated from its start
or not at all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NoReturn

from hetero.accelerator.host import Host
from hetero.emulators.registry import emulator
from hetero.errors import EmulatorError

_ASKED = "HETERO_EMULATE"


def environment(name: str, env: Mapping[str, str] | None = None, **settings: object) -> dict[str, str]:
    """A whole environment for a process that runs emulated; builds the emulator if that was not done yet.

    Args:
        name: which emulator.
        env: what to start from [default: this process's].
        settings: of the emulator, such as ``devices=4`` (:attr:`Emulator.settings`); None leaves one as it is.

    Raises:
        EmulatorError: no such emulator or setting, or it cannot be built.
    """
    chosen = emulator(name)
    result = dict(os.environ if env is None else env)
    for key, value in settings.items():
        if value is None:
            continue
        if key not in chosen.settings:
            raise EmulatorError(
                f"emulator {name!r} has no setting {key!r}; it has: {', '.join(chosen.settings)}"
            )
        result[chosen.settings[key].variable] = str(value)
    result |= chosen.environment(result)
    result[_ASKED] = name
    return result


def asked() -> str:
    """The emulator that HETERO_EMULATE names; empty when it is not set."""
    return os.environ.get(_ASKED, "")


def running() -> str:
    """The emulator that this process runs in; empty when it does not."""
    name = asked()
    return name if name and emulator(name).active(Host.here()) else ""


def enter() -> None:
    """If HETERO_EMULATE names an emulator, and this process is not in it, start the process again inside.

    To be called before torch is imported, by a program's own ``main``.

    Raises:
        EmulatorError: there is no such emulator, or it cannot be built.
    """
    name = asked()
    if not name or running():
        return
    wanted = environment(name)
    if all(os.environ.get(key) == value for key, value in wanted.items()):  # started again for nothing
        raise EmulatorError(f"the environment of emulator {name!r} is set, and its libraries are not found")
    run([sys.executable, *sys.orig_argv[1:]], wanted)


def run(command: list[str], env: Mapping[str, str]) -> NoReturn:
    """Become ``command``.

    Raises:
        EmulatorError: it cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], command, dict(env))
    except OSError as error:
        raise EmulatorError(f"{command[0]} cannot be started: {error.strerror}") from error
