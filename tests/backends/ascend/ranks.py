"""What the ranks of test_train_ranks.py do; each runs this file in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hetero
from hetero import ops
from hetero.train import recipe, run


def whole_run(path: str, overrides: list[str]) -> dict[str, Any]:
    """A run by recipe; gives the kernels that it used on this rank."""
    result = run(recipe.load(Path(path), overrides), hetero.device("ascend"))
    return {"steps": result.steps, "kernels": sorted({f"{r['op']}={r['impl']}" for r in ops.placement()})}
