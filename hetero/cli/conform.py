"""``hetero conform``: what works on this machine's devices, shown; and recorded, so that selection may use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hetero.conform.case import Case


def conform(
    backend: Annotated[str, typer.Option(help="Backend to examine, e.g. cpu.")] = "cpu",
    level: Annotated[
        int,
        typer.Option(
            min=0,
            max=4,
            help="0 plugin and device, 1 ops forward, 2 ops backward, 3 collectives, 4 training. Each has those below.",
        ),
    ] = 2,
    only: Annotated[bool, typer.Option("--only", help="This level without those below it.")] = False,
    short: Annotated[
        bool, typer.Option("--short", help="Levels 3 and 4: two ranks and three dtypes; five steps.")
    ] = False,
    op: Annotated[
        list[str] | None, typer.Option(help="Only this op; at level 4, algorithm (may be repeated).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample inputs.")] = 0,
    record: Annotated[
        bool, typer.Option("--record", help="Write a record: selection may pick what passed.")
    ] = False,
    to: Annotated[Path | None, typer.Option(help="Record file. Default: the user's cache folder.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Run conformance levels 0 to 4 and exit with 1 if anything fails."""
    import json as json_module

    from hetero.accelerator import device as open_device
    from hetero.accelerator import registry as backends
    from hetero.conform import level0
    from hetero.conform import run as levels
    from hetero.conform.record import record as write
    from hetero.errors import BackendError
    from hetero.ops import conformance

    target = open_device(backend)
    plugin = backends.record(target.vendor)
    if plugin is None or plugin.backend is None:
        raise BackendError(f"backend {backend!r} has no plugin to examine")
    checks = level0.run(plugin.backend) if level == 0 or not only else []
    found = levels.run(target, level, only=only, names=op, seed=seed, short=short)
    failed = [c for c in checks if c.status == "fail"]
    broken = [c for c in found if c.failed]
    if record and found:
        path = to or conformance.user_file(target.vendor)
        rows = write(found, target, path)
    if json:
        print(
            json_module.dumps(
                {
                    "backend": target.vendor,
                    "arch": target.arch,
                    "emulated": target.emulated,
                    "level": level,
                    "checks": [vars(c) for c in checks],
                    "cases": [{**vars(c), "status": c.status} for c in found],
                }
            )
        )
    else:
        _print(checks, found, f"{target.vendor} ({conformance.arch_key(target)})")
        if record and found:
            print(f"recorded {rows} rows in {path}")
    raise typer.Exit(1 if failed or broken else 0)


def _print(checks: list, found: list[Case], title: str) -> None:
    import sys

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from hetero.conform.case import grouped

    # A pipe has no width of its own: do not fold tables to 80 columns there.
    console = Console(width=None if sys.stdout.isatty() else 160)
    for check in checks:
        console.print(f"{check}", markup=False, highlight=False)
    if not found:
        return
    table = Table(title=f"On {title}: worst error as a fraction of what is allowed", title_justify="left")
    for column in ("op", "implementation", "dtype", "direction", "ran", "skipped", "worst", "result"):
        table.add_column(column)
    for key, group in grouped(found).items():
        ran = [c for c in group if c.status != "skip"]
        worst = f"{max(c.ratio for c in ran):.2f}" if ran else ""
        table.add_row(*key, str(len(ran)), str(len(group) - len(ran)), worst, escape(_result(group)))
    console.print(table)


def _result(group: list[Case]) -> str:
    from hetero.conform.case import verdict

    state = verdict(group)
    worst = next(c for c in group if c.status == state)
    if state == "fail":
        return f"FAIL {worst.sample}: {worst.problem}"
    return f"skipped: {worst.skipped}" if state == "skip" else "pass"
