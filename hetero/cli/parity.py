"""``hetero parity``: train one recipe on several devices and name the first op where they part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hetero.parity import Trace


def parity(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE [KEY=VALUE]... | TRACE TRACE...",
            help="A recipe to train on each device; or folders of traces, the reference first.",
        ),
    ],
    devices: Annotated[
        str, typer.Option(help="Devices, the reference first: cpu,cuda. One alone: only record its trace.")
    ] = "cpu",
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps.")] = 2,
    output: Annotated[Path, typer.Option(help="Folder for the traces and the report.")] = Path("parity"),
) -> None:
    """Compare losses, gradients and activations of one recipe between devices. Exit code 1: they part.

    Each device's trace goes to OUTPUT/<device>, the report to OUTPUT/parity.html and OUTPUT/parity.txt. For devices
    that are not in one machine, record each trace where its device is, then give the folders.
    """
    from hetero.files import write_whole
    from hetero.parity import compare, report

    if all(Path(name).is_dir() for name in what):
        traces = _load(what)
    else:
        traces = _record(what, [name.strip() for name in devices.split(",") if name.strip()], steps, output)
    if len(traces) == 1:
        return
    found = [compare(traces[0], other) for other in traces[1:]]
    said = "\n".join(report.text(comparison) for comparison in found)
    write_whole(output / "parity.txt", said + "\n")
    write_whole(output / "parity.html", report.html(found))
    print(f"{said}\n{output / 'parity.html'} shows the drift of every result")
    raise typer.Exit(1 if any(comparison.parted for comparison in found) else 0)


def _load(folders: list[str]) -> list[Trace]:
    from hetero.errors import ParityError
    from hetero.parity import Trace

    if len(folders) == 1:
        raise ParityError(f"{folders[0]} is one trace; give another to compare it with")
    return [Trace.load(Path(name)) for name in folders]


def _record(what: list[str], devices: list[str], steps: int, output: Path) -> list[Trace]:
    from hetero.errors import ParityError
    from hetero.train.recipe import load

    if not devices or len(set(devices)) < len(devices):
        raise ParityError("--devices: name each device once, the reference first, as in --devices cpu,cuda")
    recipe = load(what[0], what[1:])

    import hetero
    from hetero.parity import record

    opened = [hetero.device(name) for name in devices]  # all, before the first is trained on
    traces = []
    for name, device in zip(devices, opened):
        traces.append(record(recipe, device, steps))
        traces[-1].save(output / name.replace(":", "-"))
        print(f"{traces[-1].device}: {len(traces[-1].events)} results in {output / name.replace(':', '-')}")
    return traces
