"""What to do, where, on what."""

from __future__ import annotations

from typing import Literal

from hetero.train.recipe.keys.section import Section, key
from hetero.train.recipe.values import Flag, Names, Whole


class Run(Section):
    title = "Run"

    algorithm: Literal["sft", "dpo", "kto", "rm", "grpo"] = key(
        "sft",
        "`sft`: supervised fine-tuning. `dpo`: from pairs of answers, with the whole DPO family. `kto`: from answers "
        "that are good or bad. `rm`: a reward model. `grpo`: from completions that reward functions score.",
    )
    output_dir: str = key(
        "runs/sft",
        "Run directory: checkpoints, metrics, the resolved recipe and the trained model. "
        "Relative to the current directory; `runs/<recipe name>` when left out.",
    )
    overwrite_output_dir: Flag = key(False, "Delete what an earlier run left in `output_dir` and start anew.")
    resume_from_checkpoint: Flag | str | None = key(
        None, "`true` continues from the newest intact checkpoint in `output_dir`; a path names one."
    )
    resume_allow_changes: Names | None = key(
        None,
        "Keys that may differ from the checkpoint's when resuming; also `data`, `op_policy`, or `all`.",
        examples=[["learning_rate", "data"]],
    )
    seed: Whole = key(42, "Seed of data order, dropout, NEFTune and new weights.", ge=0, lt=2**32)
    device: str | None = key(
        None, "`cpu`, `cuda`, `ascend`, `metax:1` ...; the best one found when left out."
    )
    ops: str | None = key(
        None,
        "Which implementation each op uses, in the grammar of `HETERO_OPS`.",
        examples=["rms_norm=reference"],
    )
