"""Reading recipe text: YAML scalars as YAML 1.2 has them, and the line of every key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hetero.errors import RecipeError

MAX_BYTES = 1 << 20
_MAX_DEPTH = 20
_MAX_PARTS = 10_000


@dataclass(frozen=True)
class Entry:
    """One `key: value` as its author wrote it. `place` is "recipe.yaml:7" or "override 'lr=1'"."""

    key: str
    value: Any
    place: str
    override: bool = False


class _Loader(yaml.SafeLoader):
    """SafeLoader without the surprises of YAML 1.1: `no` is a word here, `1e-5` a number."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9][0-9_]*", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(str(loader.construct_scalar(node)).replace("_", ""))


def _float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).replace("_", "").lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def read_file(path: Path) -> str:
    """The text of a recipe file, or a `RecipeError` that says why it cannot be read."""
    if not os.path.exists(path):
        near = sorted(p.name for p in path.parent.glob("*.y*ml")) if os.path.isdir(path.parent) else []
        hint = f"; {path.parent} has: {', '.join(near)}" if near else ""
        what = "is a link to nothing" if os.path.islink(path) else "does not exist"
        raise RecipeError(f"the recipe {path} {what}{hint}")
    if not os.path.isfile(path):
        raise RecipeError(f"the recipe {path} is not a file")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RecipeError(f"{path} is larger than {MAX_BYTES} bytes: that is no recipe")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is not UTF-8 text: bad byte at offset {error.start}") from error
    except OSError as error:
        raise RecipeError(f"cannot read the recipe {path}: {error.strerror}") from error


def parse(text: str, name: str) -> list[Entry]:
    """The entries of a recipe's text in order, duplicates included.

    Raises:
        RecipeError: no valid YAML, or no flat mapping; with the line.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise RecipeError(f"{name} is empty; a recipe needs at least model_name_or_path and dataset_name")
        if not isinstance(node, yaml.MappingNode):
            raise RecipeError(f"{name}:{node.start_mark.line + 1}: a recipe is a list of `key: value` lines")
        entries = []
        for key, value in node.value:
            place = f"{name}:{key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode):
                raise RecipeError(f"{place}: a key must be a plain word")
            _check_size(value, place)
            entries.append(Entry(key.value, loader.construct_object(value, deep=True), place))
        return entries
    except RecipeError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        raise RecipeError(
            f"{place}: this is not valid YAML: {error.problem}{_tab_hint(text, mark)}"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RecipeError(f"{name}: this is not valid YAML: {error}") from error
    finally:
        loader.dispose()


def parse_override(text: str) -> Entry:
    """`key=value` from the command line; the value is read as YAML (`lr=1e-5`, `packing=true`, `x=[a,b]`)."""
    key, sign, value = text.partition("=")
    key = key.strip().removeprefix("--").replace("-", "_")
    if not sign or not key:
        raise RecipeError(f"override {text!r}: write it as key=value, for example lr=1e-5")
    loader = _Loader(value)
    try:
        node = loader.get_single_node()
        _check_size(node, f"override {text!r}")
        parsed = None if node is None else loader.construct_object(node, deep=True)
    except RecipeError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "problem", None) or error
        raise RecipeError(
            f"override {text!r}: the value is not valid YAML: {problem} (text that is no YAML goes in quotes, "
            f"within those of the shell: '{key}=\"...\"')"
        ) from error
    finally:
        loader.dispose()
    return Entry(key, parsed, f"override {text!r}", override=True)


def _check_size(node: Any, place: str) -> None:
    """Refuse a value that contains itself, or that a few lines of aliases multiply into millions of parts."""
    level, parts = [node], 0
    for _ in range(_MAX_DEPTH + 1):
        level = [part for parent in level for part in _children(parent)]
        parts += len(level)
        if not level:
            return
        if parts > _MAX_PARTS:
            raise RecipeError(f"{place}: the value has more than {_MAX_PARTS} parts")
    raise RecipeError(f"{place}: nested deeper than {_MAX_DEPTH} levels (or a value that contains itself)")


def _children(node: Any) -> Iterator[Any]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _tab_hint(text: str, mark: Any) -> str:
    lines = text.splitlines()
    if mark and mark.line < len(lines) and "\t" in lines[mark.line]:
        return " (the line has a tab: YAML indents with blanks only)"
    return ""
