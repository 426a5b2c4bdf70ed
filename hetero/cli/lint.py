"""``hetero lint``: find code that names one vendor's device, with what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def lint(
    paths: Annotated[list[Path], typer.Argument(help="Python files, or folders of them.")],
    json: Annotated[bool, typer.Option("--json", help="Print findings as JSON.")] = False,
) -> None:
    """Find device leaks (torch.cuda, .cuda(), 'nccl', device='cuda', ...) and what to write instead.

    A line with the comment `# hetero: allow` is let through. Exit code: 0 clean, 1 findings, 2 a file
    could not be checked.
    """
    import sys

    from hetero.lint import check

    report = check(paths)
    if json:
        import json as format

        rows = [finding.as_dict() for finding in report.findings]
        print(format.dumps({"files": report.files, "findings": rows, "errors": report.errors}, indent=2))
    else:
        for finding in report.findings:
            print(finding)
        for error in report.errors:
            print(error, file=sys.stderr)
        print(f"{len(report.findings)} finding(s) in {report.files} file(s)", file=sys.stderr)
    if report.findings or report.errors:
        raise typer.Exit(1 if report.findings else 2)
