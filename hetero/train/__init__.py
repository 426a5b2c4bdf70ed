"""Post-training: one loop for every algorithm. ``run(recipe, device)`` trains; the pieces are in the modules.

Nothing heavy is imported with this package: a recipe can be checked without loading torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_LAZY = {"run": "hetero.train.runner", "RunResult": "hetero.train.runner"}

__all__ = ["RunResult", "run"]

if TYPE_CHECKING:
    from hetero.train.runner import RunResult, run


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'hetero.train' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
