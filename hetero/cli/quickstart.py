"""``hetero quickstart``: a real model learns a real task, with accuracy before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def quickstart(
    device: Annotated[str, typer.Option(help="cpu, cuda, ascend, metax:1 ...")] = "cpu",
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps [default: the recipe's].")] = None,
    workdir: Annotated[
        Path, typer.Option(help="Folder for .cache/quickstart (the model) and runs/quickstart.")
    ] = Path("."),
) -> None:
    """Fine-tune SmolLM2-135M on generated problems: fetches 93 MB once, then takes minutes, offline.

    Exit code 0: accuracy on held-out problems rose by the promised margin; 1: it did not.
    """
    import hetero
    from hetero.quickstart.run import run

    raise typer.Exit(run(hetero.device(device), workdir, steps))
