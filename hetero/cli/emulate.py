"""``hetero emulate``: run a command on an emulated device, on a machine that has none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def emulate(
    emulator: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which emulator; --list shows them.")
    ] = None,
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="What to run.")] = None,
    devices: Annotated[int | None, typer.Option(help="Devices of the machine, 1 to 8.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of each device: 512MiB, 4GiB.")] = None,
    soc: Annotated[str | None, typer.Option(help="ascend: name of the chip, Ascend910B1.")] = None,
    chip: Annotated[
        str | None, typer.Option(help="cuda, metax, biren: which chip: h100, c550, br106m.")
    ] = None,
    faults: Annotated[
        str | None, typer.Option(help="Faults to inject, e.g. oom@5,late:HcclAllReduce@2:1.5.")
    ] = None,
    delay: Annotated[
        int | None,
        typer.Option(min=0, help="ascend: microseconds each task waits: a missing synchronisation shows."),
    ] = None,
    races: Annotated[
        str | None, typer.Option(help="1: an access that nothing orders is an error; report: a line.")
    ] = None,
    fallbacks: Annotated[
        Path | None,
        typer.Option(
            help="cuda, metax, biren: a file for the names of operators that ran on the CPU's kernels."
        ),
    ] = None,
    build: Annotated[bool, typer.Option("--build", help="Only fetch and build what is missing.")] = False,
    wheel: Annotated[
        Path | None, typer.Option(help="The vendor's wheel as a file, where there is no network.")
    ] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Show which of the vendor's operators are emulated.")
    ] = False,
    ran: Annotated[
        list[Path] | None, typer.Option(help="With --coverage: a file that HETERO_CANN_COVERAGE named.")
    ] = None,
    list: Annotated[bool, typer.Option("--list", help="Show the emulators.")] = False,
    json: Annotated[bool, typer.Option("--json", help="--coverage or --list as JSON.")] = False,
) -> None:
    """Run COMMAND on an emulated device: hetero emulate ascend -- python train.py

    The vendor's own PyTorch package runs, over a runtime that computes on the CPU. The first use builds that.
    docs/emulators.md says what this proves and what it cannot.
    """
    from hetero import emulators
    from hetero.errors import EmulatorError

    settings = {
        "devices": devices,
        "memory": memory,
        "soc": soc,
        "chip": chip,
        "faults": faults,
        "delay": delay,
        "races": races,
        "fallbacks": None if fallbacks is None else fallbacks.absolute(),
    }
    if list:
        _list(json)
        return
    if emulator is None:
        raise EmulatorError(f"which one? hetero emulate NAME -- COMMAND, with NAME of: {_names()}")
    chosen = emulators.emulator(emulator)
    if wheel is not None or build:
        print(f"{emulator}: {chosen.prepare(wheel=wheel, warnings=build)}")
    if coverage:
        _coverage(emulator, ran or [], json)
    elif command:
        from hetero.emulators.environment import environment, run

        run(command, environment(emulator, **settings))
    elif not build:
        raise EmulatorError(f"what shall run? hetero emulate {emulator} -- COMMAND (or --build, --coverage)")


def _names() -> str:
    from hetero import emulators

    return ", ".join(emulators.names())


def _list(json: bool) -> None:
    from hetero import emulators

    found = [emulators.emulator(name) for name in emulators.names()]
    if json:
        _dump(
            [
                {"name": e.name, "about": e.about, "settings": {k: s.help for k, s in e.settings.items()}}
                for e in found
            ]
        )
        return
    for each in found:
        print(f"{each.name}  {each.about}")
        for name, setting in each.settings.items():
            print(f"    {name:10}{setting.variable:24}{setting.help}")


def _coverage(emulator: str, files: list[Path], json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from hetero import emulators

    names = frozenset(line for file in files for line in file.read_text(encoding="utf-8").split())
    rows = emulators.emulator(emulator).coverage(names)
    if json:
        _dump(rows)
        return
    looked_up = [r for r in rows if r["looked_up"]]
    emulated = [r for r in looked_up if r["implemented"]]
    table = Table("operator", "emulated", *(["ran"] if files else []), box=None, pad_edge=False)
    for row in rows:
        marks = ["yes" if row[key] else "-" for key in ("implemented", "ran")]
        table.add_row(row["operator"], *marks[: 2 if files else 1])
    Console(width=120, highlight=False).print(table)
    print(
        f"{len(looked_up)} operators that the vendor's package can call, {len(emulated)} of them emulated",
        end="",
    )
    print(f", {sum(r['ran'] for r in emulated)} of these ran" if files else "")


def _dump(data: Any) -> None:
    import json

    print(json.dumps(data, indent=2))
