"""Data made on the spot: arithmetic questions with worked answers, the same on every machine."""

from __future__ import annotations

import operator
import random

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def arithmetic(count: int = 4000, seed: int = 0) -> list[tuple[str, str, str]]:
    """`count` problems on two numbers below 100: (question, answer sentence, bare result)."""
    rng = random.Random(seed)
    problems = []
    for _ in range(count):
        a, b = rng.randint(0, 99), rng.randint(0, 99)
        sign = rng.choice("+-*")
        result = OPERATIONS[sign](a, b)
        problems.append((f"What is {a} {sign} {b}?", f"{a} {sign} {b} = {result}", str(result)))
    return problems
