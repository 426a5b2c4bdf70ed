"""Finding a reward function by its name in the recipe."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hetero.errors import RecipeError
from hetero.train.rewards import builtin, code, verifiers
from hetero.train.rewards.model import RewardModel

RewardFunction = Callable[..., Any]

#: Names that a recipe may use.
FUNCTIONS: dict[str, RewardFunction] = {
    **builtin.FUNCTIONS,
    **{
        f.__name__: f
        for f in (verifiers.math_verify, verifiers.reasoning_gym, code.code, code.code_unsandboxed)
    },
}
_CHECKS: dict[str, Callable[[], None]] = {
    "code": code.check,
    "math_verify": verifiers.needs("math_verify", "math_verify"),
    "reasoning_gym": verifiers.needs("reasoning_gym", "reasoning_gym"),
}


def load(name: str) -> RewardFunction:
    """The function that ``name`` stands for.

    Args:
        name: a builtin's name (:data:`FUNCTIONS`), ``package.module:function``, ``file.py:function``, or the folder
            of a reward model.

    Raises:
        RecipeError: nothing of that name, a module that cannot be imported, something that cannot be called, or a
            builtin that needs what is not there: a package, a system that can isolate programs.
    """
    if name in FUNCTIONS:
        _CHECKS.get(name, lambda: None)()
        return FUNCTIONS[name]
    if (Path(name) / "config.json").is_file():
        return RewardModel(name)
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function:
        known = ", ".join(FUNCTIONS)
        raise RecipeError(
            f"reward_funcs: {name!r} is neither a builtin ({known}) nor package.module:function, "
            "file.py:function or the folder of a reward model"
        )
    module = _from_file(Path(place), name) if place.endswith(".py") else _from_package(place, name)
    found = getattr(module, function, None)
    if found is None:
        raise RecipeError(f"reward_funcs: {place} has no {function!r}")
    if not callable(found):
        raise RecipeError(f"reward_funcs: {name} is a {type(found).__name__}, not a function")
    return found


def _from_file(path: Path, name: str) -> Any:
    if not path.is_file():
        raise RecipeError(f"reward_funcs: {name!r}: there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"hetero_reward_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RecipeError(f"reward_funcs: {path} raised {type(error).__name__}: {error}") from error
    return module


def _from_package(package: str, name: str) -> Any:
    try:
        return importlib.import_module(package)
    except Exception as error:
        raise RecipeError(
            f"reward_funcs: {name!r}: importing {package} raised {type(error).__name__}: {error}"
        ) from error
