"""What is trained on."""

from __future__ import annotations

from typing import Any, Literal

from hetero.train.recipe.keys.section import Section, key
from hetero.train.recipe.values import Flag, Whole


class Data(Section):
    title = "Data"

    dataset_name: str = key(
        ...,
        "A `.jsonl`, `.json` or `.parquet` file, a folder written by `Dataset.save_to_disk` or one that "
        "holds such files per split (relative to the recipe), or the builtin `hetero:arithmetic`.",
        examples=["data/train.jsonl"],
    )
    dataset_train_split: str = key("train", "Split of a dataset folder to train on.")
    eval_dataset_name: str | None = key(None, "Data for evaluation, in the forms of `dataset_name`.")
    dataset_test_split: str | None = key(
        None, "Split to evaluate on: of `eval_dataset_name` when given, else of `dataset_name`."
    )
    partial_last_line: Literal["skip", "error"] = key(
        "skip", "A JSONL file whose last line is cut off: skip that line with a warning, or stop."
    )
    max_length: Whole | None = key(
        1024,
        "Longest sequence in tokens; the end of longer ones is cut off, and counted (`rm`: the pair is left out). "
        "`null`: no limit.",
        ge=2,
    )
    completion_only_loss: Flag | None = key(
        None, "Train on the completion of prompt-completion data only. Left out: yes for such data."
    )
    assistant_only_loss: Flag = key(False, "Train only on what the assistant says in `messages` data.")
    chat_template_kwargs: dict[str, Any] | None = key(
        None,
        "Variables for the chat template, as `{enable_thinking: false}`; a row's own column wins.",
    )
    packing: Flag = key(False, "Join short examples into rows of `max_length`; they do not see each other.")
    packing_strategy: Literal["bfd"] = key("bfd", "How rows are filled: best-fit decreasing.")
    shuffle_dataset: Flag = key(True, "Visit the rows in a new order every epoch.")
    group_by_length: Flag = key(
        False, "Put rows of similar length into a batch, so that little of it is padding; not with `packing`."
    )
