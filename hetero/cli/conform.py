"""``hetero conform``: what works on this machine's devices, shown; and recorded, so that selection may use it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def conform(
    backend: Annotated[str, typer.Option(help="Backend to examine, e.g. cpu.")] = "cpu",
    level: Annotated[
        int, typer.Option(min=0, max=2, help="0 plugin and device, 1 ops forward, 2 ops backward.")
    ] = 2,
    op: Annotated[list[str] | None, typer.Option(help="Only this op (may be repeated).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample inputs.")] = 0,
    record: Annotated[
        bool, typer.Option("--record", help="Write a record: selection may pick what passed.")
    ] = False,
    to: Annotated[Path | None, typer.Option(help="Record file. Default: the user's cache folder.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Run conformance levels 0 to 2 and exit with 1 if anything fails."""
    import json as json_module

    from hetero.accelerator import device as open_device
    from hetero.accelerator import registry as backends
    from hetero.conform import level0
    from hetero.conform import ops as op_levels
    from hetero.errors import BackendError
    from hetero.ops import conformance

    target = open_device(backend)
    plugin = backends.record(target.vendor)
    if plugin is None or plugin.backend is None:
        raise BackendError(f"backend {backend!r} has no plugin to examine")
    checks = level0.run(plugin.backend)
    found = op_levels.run(target, op, seed) if level >= 1 else []
    if level == 1:
        found = [c for c in found if c.direction == "forward"]
    failed = [c for c in checks if c.status == "fail"]
    broken = [c for c in found if not c.passed]
    if record and found:
        path = to or conformance.user_file(target.vendor)
        rows = op_levels.record(found, target, path)
    if json:
        print(
            json_module.dumps(
                {
                    "backend": target.vendor,
                    "arch": target.arch,
                    "emulated": target.emulated,
                    "level": level,
                    "checks": [vars(c) for c in checks],
                    "cases": [{**vars(c), "passed": c.passed} for c in found],
                }
            )
        )
    else:
        _print(checks, found, f"{target.vendor} ({conformance.arch_key(target)})")
        if record and found:
            print(f"recorded {rows} rows in {path}")
    raise typer.Exit(1 if failed or broken else 0)


def _print(checks: list, found: list, title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for check in checks:
        console.print(f"{check}", markup=False, highlight=False)
    if not found:
        return
    table = Table(title=f"Ops on {title}: worst error as a fraction of what is allowed", title_justify="left")
    for column in ("op", "implementation", "dtype", "direction", "cases", "worst", "result"):
        table.add_column(column)
    groups: dict[tuple[str, str, str, str], list] = {}
    for case in found:
        groups.setdefault((case.op, case.impl, case.dtype, case.direction), []).append(case)
    for key, group in groups.items():
        bad = [c for c in group if not c.passed]
        result = "pass" if not bad else f"FAIL {bad[0].sample}: {bad[0].problem}"
        table.add_row(*key, str(len(group)), f"{max(c.ratio for c in group):.2f}", result)
    console.print(table)
