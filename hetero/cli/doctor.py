"""``hetero doctor``: what hetero sees on this machine, for a person or a bug report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


def doctor(json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False) -> None:
    """Show every backend (found, absent or broken, and why), its devices, and the kernels for each op."""
    import sys

    from rich.console import Console

    from hetero.accelerator import report

    found = report.gather()
    if json:
        import json as format

        print(format.dumps(found, indent=2, default=str))
        return
    # A pipe or a bug report has no width of its own: do not fold tables to 80 columns there.
    _print(found, Console(width=None if sys.stdout.isatty() else 120, highlight=False))


def _print(found: dict[str, Any], console: Console) -> None:
    console.print(f"[bold]hetero doctor[/bold]  default device: {_safe(found['default'])}\n")
    for problem in found["problems"]:
        console.print(f"[bold red]problem[/bold red] {_safe(problem)}\n", soft_wrap=True)
    _environment(found["environment"], console)
    _backends(found["backends"], console)
    _capabilities(found["backends"], console)
    _ops(found["ops"], console)


def _environment(env: dict[str, Any], console: Console) -> None:
    for name in ("hetero", "python", "torch", "os"):
        console.print(f"  {name:8}{_safe(env[name])}")
    console.print("  with    " + ", ".join(f"{k} {v}" for k, v in env["packages"].items()), soft_wrap=True)
    for name, value in env["env"].items():
        console.print(f"  env     {_safe(f'{name}={value}')}", soft_wrap=True)
    console.print()


def _backends(backends: list[dict[str, Any]], console: Console) -> None:
    table = _table("backend", "state", "devices", "versions", "choose with")
    colours = {"found": "green", "absent": "dim", "broken": "red"}
    for row in backends:
        devices = "\n".join(f"{d['device']}  {d['name']} ({d['arch']})" for d in row["devices"]) or "-"
        versions = "\n".join(f"{k} {v}" for k, v in row["versions"].items() if k != "torch") or "-"
        state = f"[{colours[row['state']]}]{row['state']}[/]"
        table.add_row(row["name"], state, _safe(devices), _safe(versions), f"--device={row['name']}")
    console.print(table)
    for row in backends:
        console.print(f"[bold]{row['name']}[/bold] ({_safe(row['package'])})")
        for label in ("evidence", "conflicts"):
            for line in row[label]:
                console.print(f"  {label.rstrip('s')}: {_safe(line)}", soft_wrap=True)
        if row["error"]:
            console.print(f"  [red]error[/red]: {_safe(row['error'])}", soft_wrap=True)
        if row["install"]:
            console.print(f"  to use it: {_safe(row['install'])}", soft_wrap=True)
    console.print()


def _capabilities(backends: list[dict[str, Any]], console: Console) -> None:
    devices = [row["devices"][0] for row in backends if row["devices"]]
    if not devices:
        return
    table = _table("capability", *(d["device"] for d in devices))
    for name in devices[0]["caps"]:
        table.add_row(name, *(_safe(_cap(d["caps"][name])) for d in devices))
    peaks = sorted({name for d in devices for name in d["peaks"]})
    for name in peaks:
        table.add_row(f"peak {name}", *(d["peaks"].get(name, "unknown") for d in devices))
    console.print(table)


def _ops(rows: list[dict[str, str]], console: Console) -> None:
    if not rows:
        return
    columns = list(rows[0])
    table = _table(*columns)
    for row in rows:
        table.add_row(*(_safe(str(row[column])) for column in columns))
    console.print(table)


def _cap(cap: dict[str, Any]) -> str:
    value = "" if cap["value"] is None else f" ({cap['value']})"
    return f"{cap['state']}{value}" + (f": {cap['why']}" if cap["why"] else "")


def _table(*columns: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _safe(text: str) -> str:
    """``text`` without what rich would take for markup."""
    from rich.markup import escape

    return escape(text)
