"""Evaluation, logging, saving."""

from __future__ import annotations

from hetero.train.recipe.keys.section import Section, key
from hetero.train.recipe.values import Reporters, Whole


class Output(Section):
    title = "Evaluation, logging, saving"

    per_device_eval_batch_size: Whole = key(8, "Rows per device in evaluation.", ge=1)
    eval_steps: Whole | None = key(None, "Evaluate every so many steps; left out: at the end only.", ge=1)
    logging_steps: Whole = key(10, "Steps between lines on the screen; files get every step.", ge=1)
    save_steps: Whole = key(500, "Steps between checkpoints; 0: only at the end.", ge=0)
    save_total_limit: Whole | None = key(None, "Keep only the newest checkpoints, this many.", ge=1)
    report_to: Reporters = key(
        ["tensorboard"],
        "Where metrics go beside `metrics.jsonl`; `none` for nowhere.",
    )
