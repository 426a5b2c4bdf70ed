"""``hetero convert``: a recipe of LLaMA-Factory, TRL or ms-swift as a recipe of hetero."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    file: Annotated[
        Path,
        typer.Argument(help="Their YAML, ms-swift's args.json, or a shell script with the command line."),
    ],
    to: Annotated[
        Path | None, typer.Option("--to", help="Recipe to write; the screen when left out.")
    ] = None,
    tool: Annotated[
        str | None, typer.Option("--from", help="llamafactory, trl or swift; told by the keys when left out.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="sft, dpo, kto, rm or grpo: TRL's files do not say it.")
    ] = None,
) -> None:
    """Write a recipe that trains the same, with a list of what has no counterpart."""
    import sys

    from hetero.errors import RecipeError
    from hetero.files import write_whole
    from hetero.train.recipe.algorithms import LOSSES
    from hetero.train.recipe.convert import convert as translate
    from hetero.train.recipe.convert import read
    from hetero.train.recipe.convert.read import TOOLS

    for option, value, known in (("--from", tool, TOOLS), ("--algorithm", algorithm, tuple(LOSSES))):
        if value is not None and value not in known:
            raise RecipeError(f"{option} {value}: there are {', '.join(known)}")
    found, settings = read(file)
    done = translate(tool or found, settings, algorithm)
    if to is None:
        print(done.to_yaml(), end="")
        return
    if to.exists():
        raise RecipeError(f"{to} exists; choose another name or remove it")
    write_whole(to, done.to_yaml())
    print(f"wrote {to}; {len(done.notes)} notes at its top", file=sys.stderr)
    for note in done.notes:
        print(f"  - {note}", file=sys.stderr)
