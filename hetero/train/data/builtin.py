"""Data made on the spot: arithmetic questions with worked answers, the same on every machine."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator
from typing import Any

from hetero.errors import DataError

PREFIX = "hetero:"
ARITHMETIC, PAIRS = PREFIX + "arithmetic", PREFIX + "arithmetic-pairs"
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

    Pairs have the answer as chosen and the same backwards as rejected. Splits other than "train"
    draw from a random stream of their own. With `repeat` r the answer of row i is written 1 + i % r times, which
    gives rows of unequal length.

    Raises:
        DataError: no such builtin, or a malformed parameter.
    """
    base, _, query = name.partition("?")
    settings = {"rows": 1000, "seed": 0, "repeat": 1}
    try:
        given = dict(part.split("=") for part in query.split("&") if part)
        settings |= {key: int(value) for key, value in given.items()}
    except ValueError:
        raise DataError(f"{name!r}: parameters look like ?rows=1000&seed=0") from None
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
