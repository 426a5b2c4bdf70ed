"""``hetero export``: a trained model as a plain Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run_dir: Annotated[Path, typer.Argument(help="Output directory of a run, or one of its checkpoints.")],
    to: Annotated[Path, typer.Option("--to", help="New folder to write.")],
    merge: Annotated[bool, typer.Option("--merge", help="Fold a LoRA adapter into the weights.")] = False,
) -> None:
    """Write the trained model where Transformers, PEFT or vLLM can load it, after checking its logits."""
    from hetero.train.export import export as write

    print(f"wrote {write(run_dir, to, merge=merge)}")
