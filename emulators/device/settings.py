"""What may be set of an emulated device, read from the environment of the process that emulates it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hetero.emulators.device.chips import Chip
from hetero.emulators.registry import Setting
from hetero.errors import EmulatorError

SETTINGS = {
    name: Setting(f"HETERO_EMULATED_{name.upper()}", text)
    for name, text in {
        "devices": "devices of the machine, 1 to 8 [default: 2]",
        "memory": "memory of each device, such as 512MiB [default: 4GiB]",
        "chip": "which chip the devices say they are",
        "faults": "faults to inject, such as oom@5 or late:allreduce@2:1.5",
        "races": "1: unordered accesses of two streams are errors; report: lines on stderr [default: 0]",
        "fallbacks": "file that gets the names of the operators that ran on the CPU's kernels",
    }.items()
}
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_RACES = {"0": 0, "1": 1, "report": 2}


@dataclass(frozen=True)
class Settings:
    """The settings of one process. ``visible``: devices that it may use, of all; ``memory`` in bytes."""

    visible: tuple[int, ...]
    memory: int
    chip: Chip
    faults: str
    races: int
    fallbacks: str


def read(env: Mapping[str, str], chips: Mapping[str, Chip], visible: tuple[str, ...]) -> Settings:
    """The settings in ``env``.

    Args:
        chips: that may be asked for; the first is the default.
        visible: variables that restrict the devices; the first one that is set counts.

    Raises:
        EmulatorError: a value is none that is possible; says which.
    """
    get = {name: env.get(setting.variable, "") for name, setting in SETTINGS.items()}
    count = get["devices"] or "2"
    if not count.isdecimal() or not 1 <= int(count) <= 8:
        raise _wrong("devices", count, "a number from 1 to 8")
    memory = re.fullmatch(r"(\d+)\s*([KMG]iB|B|)", get["memory"] or "4GiB")
    if memory is None or not int(memory[1]):
        raise _wrong("memory", get["memory"], "a size such as 512MiB or 4GiB")
    name = get["chip"].lower() or next(iter(chips))
    if name not in chips:
        raise _wrong("chip", get["chip"], f"one of {', '.join(chips)}")
    races = get["races"] or "0"
    if races not in _RACES:
        raise _wrong("races", races, "0, 1 or report")
    return Settings(
        _visible(env, visible, int(count)),
        int(memory[1]) * _UNITS[memory[2]],
        chips[name],
        get["faults"],
        _RACES[races],
        get["fallbacks"],
    )


def _wrong(name: str, value: str, want: str) -> EmulatorError:
    return EmulatorError(f"{SETTINGS[name].variable}={value}: want {want}")


def _visible(env: Mapping[str, str], variables: tuple[str, ...], count: int) -> tuple[int, ...]:
    """Devices by a list of numbers, up to the first that does not exist, as CUDA reads it."""
    given = next((env[v] for v in variables if v in env), None)
    if given is None:
        return tuple(range(count))
    found: list[int] = []
    for part in given.split(","):
        number = part.strip()
        if not number.isdecimal() or int(number) >= count or int(number) in found:
            break
        found.append(int(number))
    return tuple(found)


def here(chips: Mapping[str, Chip], visible: tuple[str, ...]) -> Settings:
    """The settings of this process; see :func:`read`."""
    return read(os.environ, chips, visible)
