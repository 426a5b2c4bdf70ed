"""Settings of another tool from the file that holds them: YAML, JSON, or the command line in a shell script."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

from hetero.errors import RecipeError
from hetero.train.recipe.source import parse, parse_override, read_file

TOOLS = ("llamafactory", "trl", "swift")
#: Keys that only one tool has. Those of LLaMA-Factory and ms-swift are asked for first: TRL's are everywhere.
_SIGNS = {
    "llamafactory": {
        "stage",
        "finetuning_type",
        "cutoff_len",
        "lora_target",
        "dataset_dir",
        "lora_rank",
        "template",
    },
    "swift": {
        "tuner_type",
        "train_type",
        "rlhf_type",
        "split_dataset_ratio",
        "truncation_strategy",
        "swift_command",
    },
}
_COMMAND = re.compile(r"\b(swift|trl|llamafactory-cli)\s+(\w+)\s(.*)", re.DOTALL)


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """The tool that a file is for, and its settings by name.

    ``swift_command`` and ``trl_command`` hold the subcommand of a command line (``rlhf``, ``dpo``).

    Raises:
        RecipeError: absent, or neither YAML, JSON nor such a command line.
    """
    text = read_file(path)
    if path.suffix == ".json":
        try:
            values = json.loads(text)
        except ValueError as error:
            raise RecipeError(f"{path} is not valid JSON: {error}") from error
        if not isinstance(values, dict):
            raise RecipeError(f"{path}: expected an object {{...}} with the settings")
        return _tool(values), values
    if path.suffix in (".yaml", ".yml"):
        values = {entry.key.replace("-", "_"): entry.value for entry in parse(text, str(path))}
        return _tool(values), values
    return _command_line(text, path)


def _tool(values: dict[str, Any]) -> str:
    scores = {tool: len(signs & values.keys()) for tool, signs in _SIGNS.items()}
    best = max(scores, key=lambda tool: scores[tool])
    return best if scores[best] else "trl"


def _command_line(text: str, path: Path) -> tuple[str, dict[str, Any]]:
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = _COMMAND.search(lines.replace("\\\n", " "))
    if found is None:
        raise RecipeError(
            f"{path}: give YAML (.yaml), JSON (.json, as ms-swift's args.json), or a script with a `swift`, `trl` or "
            "`llamafactory-cli` command line"
        )
    program, command, rest = found.groups()
    try:
        words = shlex.split(rest.split("\n")[0])
    except ValueError as error:
        raise RecipeError(f"{path}: the command line cannot be read: {error}") from error
    tool = "llamafactory" if program == "llamafactory-cli" else program
    return tool, {f"{tool}_command": command} | _options(words)


def _options(words: list[str]) -> dict[str, Any]:
    """``--key value``, ``--key=value``, ``key=value``; several values make a list, none means true."""
    given: dict[str, list[str]] = {}
    last = None
    for word in words:
        if word.startswith("--"):
            last, sign, value = word[2:].partition("=")
            last = last.replace("-", "_")
            given[last] = [value] if sign else []
        elif last is not None:
            given[last].append(word)
        elif "=" in word:
            key, _, value = word.partition("=")
            given[key] = [value]
    parsed = {key: [_value(item) for item in items] for key, items in given.items()}
    return {key: True if not v else v[0] if len(v) == 1 else v for key, v in parsed.items()}


def _value(text: str) -> Any:
    try:
        return parse_override(f"value={text}").value
    except RecipeError:  # text that is no YAML is text
        return text
