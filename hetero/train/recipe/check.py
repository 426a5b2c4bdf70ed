"""Checks over several keys, and paths: what a recipe names must be there before anything is loaded."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hetero.train.recipe import algorithms
from hetero.train.recipe.depends import DEPENDS
from hetero.train.recipe.model import Recipe
from hetero.train.recipe.source import Entry
from hetero.train.recipe.values import plain

BUILTIN = "hetero:"
BUILTIN_MODELS = ("hetero:tiny-qwen2", "hetero:tiny-llama")
BUILTIN_DATASETS = ("hetero:arithmetic", "hetero:arithmetic-pairs")
BUILTIN_GYM = "hetero:reasoning-gym/"

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
# The form only; names are checked by hetero.ops, which loads torch.
_OPS = re.compile(r"\s*[\w*]+\s*=\s*[\w.*-][\w.*\s,-]*")


def resolve(recipe: Recipe, chosen: dict[str, Entry], path: Path, problems: list[str]) -> Recipe:
    """`recipe` with absolute paths; what is wrong is appended to `problems`."""
    _dependent_keys(recipe, chosen, problems)
    _combinations(recipe, chosen, problems)
    finder = _Finder(path, chosen, problems)
    changes: dict[str, Any] = {
        "output_dir": str(
            _expanded(recipe.output_dir if "output_dir" in chosen else f"runs/{path.stem}").absolute()
        ),
        "model_name_or_path": finder.model("model_name_or_path", recipe.model_name_or_path),
    }
    if recipe.ref_model_name_or_path is not None:
        key = "ref_model_name_or_path"
        changes[key] = finder.model(key, recipe.ref_model_name_or_path)
    if recipe.ref_cache_dir is not None:
        changes["ref_cache_dir"] = str(finder.path("ref_cache_dir", recipe.ref_cache_dir).absolute())
    for key in ("dataset_name", "eval_dataset_name"):
        if getattr(recipe, key) is not None:
            changes[key] = finder.dataset(key, getattr(recipe, key))
    if recipe.reward_funcs is not None:
        changes["reward_funcs"] = [finder.function("reward_funcs", name) for name in recipe.reward_funcs]
    if recipe.chat_template_path is not None:
        changes["chat_template_path"] = finder.existing(
            "chat_template_path", recipe.chat_template_path, "template file"
        )
    if isinstance(recipe.resume_from_checkpoint, str):
        changes["resume_from_checkpoint"] = finder.existing(
            "resume_from_checkpoint", recipe.resume_from_checkpoint, "checkpoint folder"
        )
    resolved = recipe.model_copy(update=changes)
    _own_input(resolved, chosen, problems)
    return resolved


def _own_input(recipe: Recipe, chosen: dict[str, Entry], problems: list[str]) -> None:
    """A run must not delete or replace what it starts from."""
    out = Path(os.path.realpath(recipe.output_dir))
    models = ("model_name_or_path", "ref_model_name_or_path")
    for key in (*models, "dataset_name", "eval_dataset_name", "chat_template_path"):
        name = getattr(recipe, key)
        if name is None or not os.path.isabs(name):
            continue
        if recipe.overwrite_output_dir and Path(name).is_relative_to(out):
            problems.append(
                f"{_place(chosen, key)}: {key}: {name} is in output_dir, and overwrite_output_dir deletes what "
                "an earlier run left there; choose another output_dir"
            )
        elif key == "model_name_or_path" and Path(name) == out:
            problems.append(
                f"{_place(chosen, key)}: {key}: {name} is output_dir, too: the trained model would replace "
                "the one it starts from; choose another output_dir"
            )


def _place(chosen: dict[str, Entry], key: str) -> str:
    return chosen[key].place if key in chosen else key


def _dependent_keys(recipe: Recipe, chosen: dict[str, Entry], problems: list[str]) -> None:
    for key, (other, wanted) in DEPENDS.items():
        entry = chosen.get(key)
        if entry is not None and entry.value is not None and getattr(recipe, other) not in wanted:
            state = (
                f"{chosen[other].place} sets {other}: {plain(getattr(recipe, other))}"
                if other in chosen
                else f"{other} is not set"
            )
            problems.append(
                f"{entry.place}: {entry.key} has no effect because {state}; "
                f"add `{other}: {plain(wanted[0])}` or remove the key"
            )


def _combinations(recipe: Recipe, chosen: dict[str, Entry], problems: list[str]) -> None:
    if recipe.max_steps == 0:
        problems.append(
            f"{_place(chosen, 'max_steps')}: max_steps is 0: nothing would be trained; use at least 1, or -1"
        )
    if recipe.packing and recipe.max_length is None:
        problems.append(
            f"{_place(chosen, 'packing')}: packing needs a row length, but max_length is null "
            f"({_place(chosen, 'max_length')}); set for example `max_length: 1024`"
        )
    if recipe.packing and recipe.group_by_length:
        problems.append(
            f"{_place(chosen, 'group_by_length')}: group_by_length has no effect with packing, whose rows are full; "
            "remove one of them"
        )
    if recipe.eval_steps is not None and not recipe.has_eval:
        problems.append(
            f"{_place(chosen, 'eval_steps')}: eval_steps is set but there is no evaluation data; "
            "add eval_dataset_name or dataset_test_split"
        )
    test_split = recipe.dataset_test_split
    if (
        test_split is not None
        and recipe.eval_dataset_name is None
        and test_split == recipe.dataset_train_split
    ):
        problems.append(
            f"{_place(chosen, 'dataset_test_split')}: dataset_test_split and dataset_train_split are both "
            f"{test_split!r}: the model would be judged on what it learns"
        )
    problems += [f"{_place(chosen, key)}: {key}: {text}" for key, text in algorithms.problems(recipe)]
    if recipe.ops is not None and not all(
        _OPS.fullmatch(part) for part in recipe.ops.split(";") if part.strip()
    ):
        problems.append(
            f"{_place(chosen, 'ops')}: ops: {recipe.ops!r} is not like `op=implementation;op=-implementation`"
        )


# Path.expanduser() and Path.exists() raise on an unknown user and on a name that is too long; these do not.
def _expanded(name: str) -> Path:
    return Path(os.path.expanduser(name))


class _Finder:
    """Turns the names in a recipe into absolute paths."""

    def __init__(self, recipe_path: Path, chosen: dict[str, Entry], problems: list[str]):
        self.folder = recipe_path.absolute().parent
        self.chosen, self.problems = chosen, problems

    def path(self, key: str, name: str) -> Path:
        base = Path.cwd() if key in self.chosen and self.chosen[key].override else self.folder
        return base / _expanded(name)

    def existing(self, key: str, name: str, what: str) -> str:
        path = self.path(key, name)
        if not os.path.exists(path):
            self.problems.append(self._absent(key, name, path, what))
            return name
        return str(path.resolve())

    def function(self, key: str, name: str) -> str:
        """`file.py:function` or a model's folder with its whole path; another name as it is, the loader will tell."""
        if ":" not in name and (self.path(key, name) / "config.json").is_file():
            return str(self.path(key, name).resolve())
        file, colon, function = name.rpartition(":")
        if not (colon and file.endswith(".py")):
            return name
        return f"{self.existing(key, file, 'Python file')}:{function}"

    def dataset(self, key: str, name: str) -> str:
        if name.startswith(BUILTIN):
            base, _, query = name.partition("?")
            known = base in BUILTIN_DATASETS or base.startswith(BUILTIN_GYM)
            if not known or not re.fullmatch(r"((rows|seed|repeat)=\d+(&|$))*", query):
                self.problems.append(
                    f"{_place(self.chosen, key)}: {key}: no builtin dataset {name!r}; there is "
                    "hetero:arithmetic?rows=1000&seed=0&repeat=1 (each part after ? may be left out), and "
                    "hetero:arithmetic-pairs and hetero:reasoning-gym/TASK"
                )
            return name
        return self.existing(key, name, "file or folder")

    def model(self, key: str, name: str) -> str:
        if name.startswith(BUILTIN):
            if name not in BUILTIN_MODELS:
                self.problems.append(
                    f"{_place(self.chosen, key)}: {key}: no builtin model {name!r}; "
                    f"there are {', '.join(BUILTIN_MODELS)}"
                )
            return name
        path = self.path(key, name)
        if os.path.exists(path):
            if not os.path.isfile(path / "config.json"):
                what = (
                    "is a file, not a model folder"
                    if os.path.isfile(path)
                    else "has no config.json, so it is no model folder"
                )
                self.problems.append(f"{_place(self.chosen, key)}: {key}: {path} {what}")
            return str(path.resolve())
        first = Path(name).parts[0] if name else ""
        if _HUB_NAME.fullmatch(name) and not (first != name and (os.path.isdir(path.parent))):
            return name  # a Hub name: only the loader can tell
        self.problems.append(self._absent(key, name, path, "model folder"))
        return name

    def _absent(self, key: str, name: str, path: Path, what: str) -> str:
        state = "is a link to nothing" if os.path.islink(path) else "does not exist"
        elsewhere = Path.cwd() / _expanded(name)
        hint = ""
        if path != elsewhere and os.path.exists(elsewhere):
            hint = f" (paths in a recipe are relative to its folder; {elsewhere} does exist)"
        return f"{_place(self.chosen, key)}: {key}: the {what} {path} {state}{hint}"
