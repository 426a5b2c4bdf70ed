"""``hetero data check``: look at training data before a run does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hetero.train.data.check import Findings

data = typer.Typer(name="data", help="Look at training data.", no_args_is_help=True)


@data.callback()
def _group() -> None:
    """Look at training data."""


@data.command()
def check(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Data as in `dataset_name`; or a recipe (.yaml), whose data it is."
        ),
    ],
    model: Annotated[
        str, typer.Option(help="Whose tokenizer and chat template to use: a folder, a Hub name, a builtin.")
    ] = "hetero:tiny-qwen2",
    algorithm: Annotated[
        str | None, typer.Option(help="sft, dpo, kto, rm or grpo; told by the columns when left out.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of a data folder.")] = "train",
    max_length: Annotated[int | None, typer.Option(min=2, help="Name rows with more tokens.")] = None,
    assistant_only: Annotated[
        bool, typer.Option("--assistant-only", help="Train on what the assistant says (assistant_only_loss).")
    ] = False,
    near: Annotated[
        float | None, typer.Option(min=0.1, max=1, help="Find rows at least this similar too, as 0.8.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="How many examples to show.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Show layout, lengths, rendered samples, duplicates, and every problem with its line.

    Exit code 1: something would stop training.
    """
    from hetero.errors import RecipeError
    from hetero.train.data.check import Settings, examine
    from hetero.train.data.dataset import source_of
    from hetero.train.data.sources import open_source
    from hetero.train.model import load_tokenizer
    from hetero.train.recipe import load
    from hetero.train.recipe.algorithms import LOSSES

    if algorithm is not None and algorithm not in LOSSES:
        raise RecipeError(f"--algorithm {algorithm}: there are {', '.join(LOSSES)}")
    if Path(file).suffix in (".yaml", ".yml"):
        recipe = load(file)
        model = recipe.model_name_or_path
        tokenizer = load_tokenizer(
            model, chat_template_path=recipe.chat_template_path, eos_token=recipe.eos_token
        )
        settings = Settings.of(recipe, tokenizer, near=near, samples=samples)
        source = source_of(recipe, "train")
    else:
        source = open_source(file, split)
        settings = Settings(
            load_tokenizer(model),
            algorithm,
            max_length,
            assistant_only,
            near=near,
            samples=samples,
        )
    found = examine(source, settings)
    if json:
        import json as format

        print(format.dumps({"model": model, **found.as_dict()}, ensure_ascii=False))
    else:
        _print(found, model, settings)
    raise typer.Exit(1 if found.errors else 0)


def _print(found: Findings, model: str, settings: Any) -> None:
    import sys

    from rich.console import Console
    from rich.text import Text

    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else 160, highlight=False)

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=True)

    say(
        f"{found.name}: {found.rows} rows, read for {found.algorithm or 'nothing'}, tokens of {model}", "bold"
    )
    for layout, count in found.layouts.most_common(10):
        say(f"  {count:>7}  {layout}")
    if found.lengths:
        total = sum(found.lengths)
        trained = f", {found.trained:,} trained on" if found.algorithm != "grpo" else ""
        say(
            f"\n{len(found.lengths)} examples, {total:,} tokens{trained}; length {min(found.lengths)} to "
            f"{max(found.lengths)}, mean {total / len(found.lengths):.1f}",
            "bold",
        )
        _histogram(found, settings.max_length, say)
    for sample in found.samples:
        name = f" ({sample.name})" if sample.name else ""
        how = "green is trained on" if terminal else "what is trained on stands in ⟦ ⟧"
        say(f"\n{sample.place}{name}; {how}:", "bold")
        console.print(_sample(sample.pieces, terminal), soft_wrap=True)
    _problems(found, say)


def _histogram(found: Findings, limit: int | None, say: Any) -> None:
    bars = found.histogram()
    most = max(count for _, _, count in bars)
    for low, high, count in bars:
        beyond = "  beyond max_length" if limit is not None and low > limit else ""
        say(f"  {low:>6} - {high:<6} {count:>7}  {'█' * round(40 * count / most)}{beyond}")


def _sample(pieces: list[tuple[str, bool]], colours: bool) -> Any:
    from rich.text import Text

    text = Text()
    for piece, trained in pieces:
        if trained:
            text.append(piece if colours else f"⟦{piece}⟧", "green")
        else:
            text.append(piece, "dim")
    return text


def _problems(found: Findings, say: Any) -> None:
    if not found.counts:
        say("\nno problems found", "bold green")
        return
    say(f"\n{sum(found.counts.values())} problems, {found.errors} of which would stop training:", "bold")
    for kind, count in found.counts.items():
        listed = [problem for problem in found.problems if problem.kind == kind]
        style = "red" if listed[0].level == "error" else "yellow"
        say(f"  {listed[0].level}: {kind} ({count})", style)
        for problem in listed:
            say(f"    {problem.place}: {problem.text}")
        if count > len(listed):
            say(f"    and {count - len(listed)} more")
