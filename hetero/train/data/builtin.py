"""Data made on the spot: arithmetic with worked answers, and the tasks of reasoning-gym; the same on every machine."""

from __future__ import annotations

import difflib
import json
import operator
import random
import zlib
from collections.abc import Iterator
from typing import Any

from hetero.errors import DataError

PREFIX = "hetero:"
ARITHMETIC, PAIRS, GYM = PREFIX + "arithmetic", PREFIX + "arithmetic-pairs", PREFIX + "reasoning-gym/"
_SPLIT_SEEDS = (
    1 << 30
)  # reasoning-gym seeds problem i with seed + i: splits must be further apart than their sizes
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def arithmetic(count: int = 4000, seed: int | str = 0) -> list[tuple[str, str, str]]:
    """`count` problems on two numbers below 100: (question, answer sentence, bare result)."""
    rng = random.Random(seed)
    problems = []
    for _ in range(count):
        a, b = rng.randint(0, 99), rng.randint(0, 99)
        sign = rng.choice("+-*")
        result = OPERATIONS[sign](a, b)
        problems.append((f"What is {a} {sign} {b}?", f"{a} {sign} {b} = {result}", str(result)))
    return problems


def rows(name: str, split: str = "train") -> Iterator[dict[str, Any]]:
    """Rows of "hetero:arithmetic?rows=1000&seed=0&repeat=1", in messages form, or of "hetero:arithmetic-pairs".

    "hetero:reasoning-gym/NAME?rows=1000&seed=0" gives that task's entries: {"prompt", "answer", "metadata": JSON},
    for rollouts with the reward ``reasoning_gym``.

    Pairs have the answer as chosen and the same backwards as rejected. Splits other than "train"
    draw from a random stream of their own. With `repeat` r the answer of row i is written 1 + i % r times, which
    gives rows of unequal length.

    Raises:
        DataError: no such builtin or task, a malformed parameter, or reasoning-gym is not installed.
    """
    base, _, query = name.partition("?")
    settings = {"rows": 1000, "seed": 0, "repeat": 1}
    try:
        given = dict(part.split("=") for part in query.split("&") if part)
        settings |= {key: int(value) for key, value in given.items()}
    except ValueError:
        raise DataError(f"{name!r}: parameters look like ?rows=1000&seed=0") from None
    if base.startswith(GYM) and len(settings) == 3:
        yield from _gym(base.removeprefix(GYM), settings["rows"], settings["seed"], split)
        return
    if base not in (ARITHMETIC, PAIRS) or len(settings) != 3 or settings["repeat"] < 1:
        raise DataError(f"no builtin dataset {name!r}; there is hetero:arithmetic?rows=1000&seed=0&repeat=1")
    seed = settings["seed"] if split == "train" else f"{settings['seed']}/{split}"
    for i, (question, answer, _) in enumerate(arithmetic(settings["rows"], seed)):
        times = 1 + i % settings["repeat"]
        prompt = [{"role": "user", "content": question}]
        right = [{"role": "assistant", "content": answer * times}]
        if base == ARITHMETIC:
            yield {"messages": prompt + right}
            continue
        wrong = [{"role": "assistant", "content": answer[::-1] * times}]
        yield {"prompt": prompt, "chosen": right, "rejected": wrong}


def _gym(task: str, count: int, seed: int, split: str) -> Iterator[dict[str, Any]]:
    try:
        import reasoning_gym
    except ImportError as error:
        raise DataError(
            f"{GYM}{task} comes from reasoning-gym, which cannot be imported ({error}); "
            "pip install 'hetero[verifiers]'"
        ) from error
    # Their verifiers compare tuples, which JSON does not keep; composite is no task by itself.
    known = sorted({*reasoning_gym.factory.DATASETS} - {"arc_agi", "rearc", "composite"})
    if task not in known:
        near = difflib.get_close_matches(task, known, 3) or known[:3]
        raise DataError(f"reasoning-gym has no task {task!r} that can be used; near to it: {', '.join(near)}")
    start = seed if split == "train" else seed + _SPLIT_SEEDS * (1 + zlib.crc32(split.encode()) % 64)
    for entry in reasoning_gym.create_dataset(task, size=count, seed=start):
        prompt = [{"role": "user", "content": entry["question"]}]
        metadata = json.dumps(entry["metadata"], default=str)
        yield {"prompt": prompt, "answer": str(entry["answer"]), "metadata": metadata}
