"""``hetero train RECIPE [key=value ...]``: check a recipe, then run it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def train(
    recipe: Annotated[
        Path, typer.Argument(help="YAML recipe; recipes/ has some, docs/recipes.md lists the keys.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Recipe keys to replace: lr=1e-5 max_steps=20"),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, ascend, metax:1 …; wins over the recipe's `device`.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Load model and data, show the resolved recipe and the counts, stop."),
    ] = False,
) -> None:
    """Train a model as a recipe says. The recipe is checked before anything is loaded."""
    from hetero.train.recipe import load

    resolved = load(recipe, overrides or [])

    import hetero

    chosen = hetero.device(device or resolved.device)
    if dry_run:
        _show(resolved, chosen)
        return
    from hetero.train import run

    result = run(resolved, chosen)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _show(recipe: Any, device: Any) -> None:
    from hetero.train.algorithms import create
    from hetero.train.model import load

    print(f"# resolved recipe, device {device}\n{recipe.to_yaml()}")
    _, tokenizer = load(recipe, device)
    algorithm = create(recipe, tokenizer)
    for split in ("train", "eval") if recipe.has_eval else ("train",):
        print(algorithm.prepare(split)[1].summary())
