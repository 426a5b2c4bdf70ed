"""TensorBoard event files, under ``run_dir/runs``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hetero.errors import RecipeError


class TensorBoardSink:
    """Writes every number of a row as a scalar: ``train/<name>``, and ``eval/<name>`` for ``eval_<name>``."""

    every_step = False

    def __init__(self, run_dir: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RecipeError(
                "report_to: tensorboard needs the package tensorboard; install it or leave report_to out"
            ) from error
        self._writer = SummaryWriter(str(run_dir / "runs"))

    def write(self, row: dict[str, Any]) -> None:
        """Write one row at its ``step``."""
        for name, value in row.items():
            if name == "step" or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            tag = f"eval/{name[5:]}" if name.startswith("eval_") else f"train/{name}"
            self._writer.add_scalar(tag, value, row["step"])

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()
