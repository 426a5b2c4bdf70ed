"""From recipe text and overrides to a validated `Recipe`; all problems are reported in one error."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from hetero.errors import RecipeError
from hetero.train.recipe import check
from hetero.train.recipe.depends import DEPENDS
from hetero.train.recipe.model import Recipe
from hetero.train.recipe.source import Entry, parse, parse_override, read_file
from hetero.train.recipe.values import expected, given, plain

# Other spellings that are understood: ours on the command line, older TRL, LLaMA-Factory.
ALIASES = {
    "lr": "learning_rate",
    "torch_dtype": "dtype",
    "cutoff_len": "max_length",
    "max_seq_length": "max_length",
    "lora_rank": "lora_r",
    "lora_target": "lora_target_modules",
    "model": "model_name_or_path",
    "ref_model": "ref_model_name_or_path",
    "pref_beta": "beta",
    "pref_loss": "loss_type",
    "dpo_label_smoothing": "label_smoothing",
    "kto_chosen_weight": "desirable_weight",
    "kto_rejected_weight": "undesirable_weight",
    "dataset": "dataset_name",
}

# Keys of other tools that have no twin here, and what to write instead.
HINTS = {
    "bf16": "write `dtype: bfloat16`",
    "fp16": "write `dtype: bfloat16`; float16 training is not supported",
    "stage": "write `algorithm: sft`, `dpo`, `kto` or `rm`",
    "finetuning_type": "write `use_peft: true` for LoRA, leave it out for full training",
    "optim": "the optimiser is AdamW; leave the key out",
    "template": "the model's own chat template is used; another is named with `chat_template_path`",
    "use_cpu": "write `device: cpu`",
    "eval_strategy": "write `eval_steps`",
    "save_strategy": "write `save_steps` (0: only at the end)",
    "pref_ftx": "write `loss_type: [sigmoid, sft]` and `loss_weights: [1, 0.2]`",
    "rpo_alpha": "write `loss_type: [sigmoid, sft]` and `loss_weights: [1, alpha]`",
    "cpo_alpha": "write `loss_type: [cpo, sft]` and `loss_weights: [1, alpha]`",
    "reference_free": "use the losses without a reference: `cpo`, `simpo`, `orpo`",
    "max_prompt_length": "prompt and answer together are cut to `max_length`",
    "truncation_mode": "the end of longer sequences is cut off; leave the key out",
    "load_in_4bit": "quantised base models are not supported",
    "load_in_8bit": "quantised base models are not supported",
    "deepspeed": "DeepSpeed is not supported yet",
}

# Where two keys say different things about one matter. An override silently wins over a line of the file.
CONFLICTS = (
    ("max_steps", "num_train_epochs", "both say when training ends; keep one"),
    ("warmup_steps", "warmup_ratio", "both say how long warm-up lasts; keep one"),
    (
        "resume_from_checkpoint",
        "overwrite_output_dir",
        "one continues the earlier run, the other deletes it; keep one",
    ),
)


def load(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read, check and resolve a recipe. Nothing heavy is imported and no data or model is opened.

    Args:
        path: YAML file. Relative `model_name_or_path`, `dataset_name` … in it are relative to its folder.
        overrides: `key=value` strings, which replace lines of the file; relative paths in them, and
            `output_dir`, are relative to the current directory.

    Raises:
        RecipeError: everything that is wrong, each with file and line, what was given and what to write.
    """
    path = Path(path)
    entries = parse(read_file(path), str(path))
    problems: list[str] = []
    for text in overrides:
        try:
            entries.append(parse_override(text))
        except RecipeError as error:
            problems.append(str(error))
    chosen = _choose(entries, problems)
    _drop_overridden(chosen)
    recipe = check.resolve(_validate(chosen, problems, path), chosen, path, problems)
    if problems:
        raise RecipeError(problems[0] if len(problems) == 1 else _several(path, problems))
    return recipe


def _several(path: Path, problems: list[str]) -> str:
    problems = sorted(problems, key=lambda text: int(m[1]) if (m := re.match(r".*?:(\d+):", text)) else 0)
    return f"{path}: {len(problems)} problems\n" + "\n".join(f"  - {problem}" for problem in problems)


def _choose(entries: list[Entry], problems: list[str]) -> dict[str, Entry]:
    """One entry a key, canonical names; an override replaces the file's line."""
    chosen: dict[str, Entry] = {}
    for entry in entries:
        key = ALIASES.get(entry.key, entry.key)
        if key not in Recipe.model_fields:
            problems.append(f"{entry.place}: unknown key {entry.key!r}{_suggestion(entry.key)}")
            continue
        earlier = chosen.get(key)
        if earlier is not None and not entry.override:
            also = f" (as {earlier.key!r})" if earlier.key != entry.key else ""
            problems.append(
                f"{entry.place}: {entry.key!r} is set already, at {earlier.place}{also}; "
                "remove one of the two"
            )
            continue
        chosen[key] = entry
    return chosen


def _suggestion(key: str) -> str:
    if key in HINTS:
        return f"; {HINTS[key]}"
    near = difflib.get_close_matches(
        key.lower().replace("-", "_"), [*Recipe.model_fields, *ALIASES], n=1, cutoff=0.6
    )
    return f"; did you mean {near[0]!r}?" if near else "; docs/recipes.md lists the keys"


def _drop_overridden(chosen: dict[str, Entry]) -> None:
    """Remove lines of the file that an override contradicts, so that `max_steps=5` works on any recipe."""
    for first, second, _ in CONFLICTS:
        if first in chosen and second in chosen and chosen[first].override != chosen[second].override:
            del chosen[second if chosen[first].override else first]
    for key, (other, wanted) in DEPENDS.items():
        ruled_out = other in chosen and chosen[other].override and chosen[other].value not in wanted
        if ruled_out and key in chosen and not chosen[key].override:
            del chosen[key]


def _validate(chosen: dict[str, Entry], problems: list[str], path: Path) -> Recipe:
    for key, field in Recipe.model_fields.items():
        if field.is_required() and key not in chosen:
            problems.append(f"{path}: the key {key} is missing; add for example `{key}: {field.examples[0]}`")  # type: ignore[index]
    for first, second, why in CONFLICTS:
        if _active(chosen.get(first)) and _active(chosen.get(second)):
            a, b = chosen[first], chosen[second]
            problems.append(f"{a.place}: {a.key} and {b.key} ({b.place}): {why}")
    values = {key: entry.value for key, entry in chosen.items()}
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        for key in dict.fromkeys(str(item["loc"][0]) for item in error.errors()):
            if key in chosen:
                problems.append(_wrong_value(key, chosen.pop(key)))
                del values[key]
    # Go on without what is wrong, so that the remaining checks speak up too; the caller raises in any case.
    stand_in = {"model_name_or_path": check.BUILTIN_MODELS[0], "dataset_name": check.BUILTIN_DATASETS[0]}
    return Recipe.model_validate(stand_in | values)


def _active(entry: Entry | None) -> bool:
    """Whether a line asks for something: `max_steps: -1` and `warmup_steps: 0` say nothing."""
    return entry is not None and entry.value not in (None, False, 0, -1)


def _wrong_value(key: str, entry: Entry) -> str:
    field = Recipe.model_fields[key]
    example = (field.examples or [field.default])[0]
    show = f"; for example `{key}: {plain(example)}`" if example not in (None, ...) else ""
    words = expected(field.annotation, field.metadata)
    if entry.value is None:
        show = f"; remove the line to use {plain(field.default)}"
    elif isinstance(entry.value, (int, float)) and words == "text":
        show = f'; put it in quotes: `{key}: "{plain(entry.value)}"`'
    return f"{entry.place}: {entry.key}: expected {words}, got {given(entry.value)}{show}"
