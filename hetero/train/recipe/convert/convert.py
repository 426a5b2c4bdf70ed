"""Settings of another tool to a recipe, and a list of what has no counterpart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml
from pydantic import ValidationError

from hetero.errors import RecipeError
from hetero.train.recipe import algorithms
from hetero.train.recipe.convert import tables
from hetero.train.recipe.depends import DEPENDS
from hetero.train.recipe.load import ALIASES
from hetero.train.recipe.model import Recipe
from hetero.train.recipe.values import expected, given, plain

_STAGES = {"sft": "sft", "pt": "sft", "dpo": "dpo", "kto": "kto", "rm": "rm", "grpo": "grpo", "orpo": "dpo",
           "simpo": "dpo", "cpo": "dpo", "reward": "rm", "rloo": "grpo"}  # fmt: skip


@dataclass
class Converted:
    """A recipe's keys, and sentences about what was left out or needs a look."""

    tool: str
    values: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    def to_yaml(self) -> str:
        """The recipe as a file, its notes as comments on top."""
        head = [
            f"# Converted from a recipe of {self.tool} by `hetero convert`. Every key is in docs/recipes.md."
        ]
        if self.notes:
            head += ["#", "# Without a counterpart, or to be looked at:"]
            head += [f"#   - {note}" for note in self.notes]
        return (
            "\n".join(head)
            + "\n\n"
            + yaml.safe_dump(self.values, sort_keys=False, allow_unicode=True, width=110)
        )


def convert(tool: str, given_values: dict[str, Any], algorithm: str | None = None) -> Converted:
    """A recipe that trains as the settings of `tool` (llamafactory, trl or swift) say.

    Args:
        algorithm: sft, dpo, kto, rm or grpo, where the settings do not tell: TRL has it on the command line only.

    Raises:
        RecipeError: the training asked for does not exist here (`stage: ppo`).
    """
    settings = {key: value for key, value in given_values.items() if value is not None}
    done = Converted(tool, {})
    done.values["algorithm"] = algorithm or _algorithm(settings, tool, done.notes)
    for key, value in settings.items():
        _one(key, value, done)
    _about_the_model(settings, tool, done)
    _about_the_data(settings, tool, done)
    _losses(settings, done)
    _fit(done)
    _defaults(tool, done, settings)
    done.values = {key: done.values[key] for key in _order(done.values)}
    return done


def _order(values: dict[str, Any]) -> list[str]:
    return [key for key in Recipe.model_fields if key in values]


def _algorithm(settings: dict[str, Any], tool: str, notes: list[str]) -> str:
    asked = settings.get("stage") or settings.get("rlhf_type") or settings.get(f"{tool}_command")
    if asked in _STAGES:
        if asked in ("orpo", "simpo", "cpo"):
            settings["loss_type"] = asked
        if asked == "pt":
            notes.append("stage: pt is training on plain text: rows with a column `text`")
        return _STAGES[asked]
    if asked not in (None, "train", "rlhf"):
        raise RecipeError(
            f"{tool}'s {asked!r} has no counterpart; there are sft, dpo (with orpo, simpo, cpo), kto, rm, grpo"
        )
    if "reward_funcs" in settings or "num_generations" in settings:
        return "grpo"
    losses = settings.get("loss_type")
    if losses == "kto" or "desirable_weight" in settings:
        return "kto"
    if "precompute_ref_log_probs" in settings or "beta" in settings or losses in algorithms.LOSSES["dpo"]:
        notes.append("taken for DPO, by its keys; say otherwise with --algorithm")
        return "dpo"
    if tool == "trl":
        notes.append(
            "taken for SFT: TRL names the algorithm on the command line; say otherwise with --algorithm"
        )
    return "sft"


def _one(key: str, value: Any, done: Converted) -> None:
    if key == "datasets" and isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        key, value = "dataset_name", value[0].get("path")
    name = tables.RENAMED.get(key, ALIASES.get(key, key))
    if key in tables.NO_COUNTERPART:
        if value not in (False, "no", 0):
            done.notes.append(f"{key}: {plain(value)}: {tables.NO_COUNTERPART[key]}")
    elif key in tables.NOT_NEEDED:
        pass
    elif name not in Recipe.model_fields:
        done.notes.append(f"{key}: {plain(value)}: there is no such setting here")
    else:
        known = tables.VALUES.get(name, {})
        plainest = value[0] if isinstance(value, list) and len(value) == 1 else value
        new = known.get(plainest, value) if isinstance(plainest, str) else value
        if (
            new != value
            and name in ("dtype", "attn_implementation")
            and value not in ("bf16", "fp32", "auto")
        ):
            done.notes.append(f"{key}: {plain(value)}: written as {name}: {new}")
        done.values[name] = new


def _about_the_model(settings: dict[str, Any], tool: str, done: Converted) -> None:
    if "dtype" not in done.values and any(settings.get(key) for key in ("bf16", "pure_bf16", "fp16")):
        done.values["dtype"] = "bfloat16"
        if settings.get("fp16"):
            done.notes.append("fp16: true: float16 training is not supported; written as dtype: bfloat16")
    kind = settings.get("finetuning_type") or settings.get("tuner_type") or settings.get("train_type")
    if kind is None and tool != "trl":
        kind = "lora"
    if kind not in (None, "lora", "full"):
        raise RecipeError(f"{tool}'s {kind!r} tuning has no counterpart; there are lora and full")
    if kind is not None:
        done.values["use_peft"] = kind == "lora"
    if tool == "llamafactory" and kind == "lora":
        rank = done.values.setdefault("lora_r", 8)
        done.values.setdefault("lora_alpha", 2 * rank if isinstance(rank, int) else 16)
    if settings.get("disable_gradient_checkpointing"):
        done.values["gradient_checkpointing"] = False
    if settings.get("use_cpu") or settings.get("no_cuda"):
        done.values["device"] = "cpu"
    if "template" in settings:
        done.notes.append(
            f"template: {settings['template']}: the model's own chat template is used; another: chat_template_path"
        )
    if done.values.pop("trust_remote_code", False):
        done.notes.append("trust_remote_code: true: code inside a model folder is never run")


def _about_the_data(settings: dict[str, Any], tool: str, done: Converted) -> None:
    for key in ("dataset_name", "eval_dataset_name"):
        value = done.values.get(key)
        names = value if isinstance(value, list) else str(value).split(",") if value is not None else []
        names = [str(name).strip() for name in names]
        if len(names) > 1:
            done.notes.append(
                f"{key}: of {len(names)} data sets only the first is named; join the files: {', '.join(names)}"
            )
        if names:
            name, mark, count = names[0].partition("#")
            if mark:
                done.notes.append(f"{key}: {names[0]}: all rows are used, not {count}")
            if tool == "llamafactory" and "/" not in name and "." not in name:
                folder = settings.get("dataset_dir", "data")
                name = f"{folder}/{name}.json"
                done.notes.append(
                    f"{key}: {name} is a guess: dataset_info.json says which file {names[0]!r} is"
                )
            elif "." not in name.rsplit("/", 1)[-1] and not name.startswith("hetero:"):
                done.notes.append(
                    f"{key}: {name}: give a file or folder of this machine; nothing is downloaded"
                )
            done.values[key] = name
    if done.values["algorithm"] == "sft" and tool != "trl" and settings.get("stage") != "pt":
        done.values["assistant_only_loss"] = not settings.get("train_on_prompt", False)
    if settings.get("neat_packing"):
        done.values["packing"] = True


def _losses(settings: dict[str, Any], done: Converted) -> None:
    functions = done.values.get("reward_funcs")
    if functions is not None:
        functions = functions if isinstance(functions, list) else [functions]
        for name in functions:
            if name not in tables.REWARDS and ":" not in str(name) and "/" not in str(name):
                done.notes.append(f"reward_funcs: {name}: look whether docs/training.md has its like")
        done.values["reward_funcs"] = [tables.REWARDS.get(name, name) for name in functions]
    weight = settings.get("pref_ftx") or settings.get("rpo_alpha") or settings.get("cpo_alpha")
    if weight and done.values["algorithm"] == "dpo":
        first = done.values.get("loss_type", "sigmoid")
        done.values["loss_type"] = [*(first if isinstance(first, list) else [first]), "sft"]
        done.values["loss_weights"] = [1.0, float(weight)]


def _fit(done: Converted) -> None:
    """Leave out what does not go with the rest, and say so."""
    for key, (other, wanted) in DEPENDS.items():
        have = done.values.get(other, Recipe.model_fields[other].default)
        if key in done.values and have not in wanted:
            done.notes.append(
                f"{key}: {plain(done.values.pop(key))}: has no effect with {other}: {plain(have)}"
            )
    for first, second in (("max_steps", "num_train_epochs"), ("warmup_steps", "warmup_ratio")):
        if done.values.get(first) in (-1, 0):
            del done.values[first]
        if first in done.values and second in done.values:
            done.notes.append(f"{second}: {plain(done.values.pop(second))}: {first} wins over it")
    if (
        done.values.get("eval_steps") is not None
        and not {"eval_dataset_name", "dataset_test_split"} & done.values.keys()
    ):
        done.notes.append(f"eval_steps: {plain(done.values.pop('eval_steps'))}: there is no evaluation data")
    stand_in = {"model_name_or_path": "hetero:tiny-qwen2", "dataset_name": "hetero:arithmetic"}
    try:
        Recipe.model_validate(stand_in | done.values)
    except ValidationError as error:
        for key in dict.fromkeys(str(item["loc"][0]) for item in error.errors()):
            field_ = Recipe.model_fields[key]
            words = expected(field_.annotation, field_.metadata)
            done.notes.append(f"{key}: {given(done.values.pop(key))} is not {words}; left out")
    for key, text in algorithms.problems(Recipe.model_validate(stand_in | done.values)):
        done.notes.append(f"{key}: {text}")
    for key in ("model_name_or_path", "dataset_name"):
        if key not in done.values:
            done.notes.append(f"{key} is missing: name it")


def _defaults(tool: str, done: Converted, settings: dict[str, Any]) -> None:
    """Write out the defaults of `tool` that are not ours."""
    own = dict(tables.DEFAULTS[tool])
    if tool == "swift":
        own["learning_rate"] = 1e-4 if done.values.get("use_peft") else 1e-5
        rows = done.values.get("per_device_train_batch_size", own["per_device_train_batch_size"])
        own["gradient_accumulation_steps"] = max(1, -(-16 // rows))
    if {"warmup_steps", "warmup_ratio"} & done.values.keys():
        own.pop("warmup_ratio", None)
    for key, value in own.items():
        other, wanted = DEPENDS.get(key, (None, ()))
        if other is None or done.values.get(other) in wanted:
            done.values.setdefault(key, value)
