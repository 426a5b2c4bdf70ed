"""Which implementations the user allows: one grammar for ``HETERO_OPS``, :func:`use` and recipes.

    policy := rule (";" rule)*          rms_norm=cpp;attention=-flash;*=reference
    rule   := op "=" choice ("," choice)*
    choice := NAME      allow it, in this order of preference
            | "-" NAME  forbid it
            | "*"       then whatever selection would pick by itself

A rule for an op replaces the rule for ``*`` (every op). With names and no ``*``, only those are allowed, and a
call that none of them can serve is an error: a pin is never quietly dropped.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hetero.errors import OpError
from hetero.ops.placement import Choice


@dataclass(frozen=True)
class Rule:
    """What one op may use."""

    prefer: tuple[str, ...] = ()
    forbid: frozenset[str] = frozenset()
    others: bool = True

    @property
    def pinned(self) -> bool:
        """Whether only the named implementations may be used."""
        return bool(self.prefer) and not self.others


@dataclass(frozen=True)
class Policy:
    """Parsed policy; ``text`` is what was parsed, kept for checkpoints and messages."""

    text: str = ""
    rules: dict[str, Rule] = field(default_factory=dict)

    def rule(self, op: str) -> Rule:
        """The rule that governs ``op``."""
        return self.rules.get(op) or self.rules.get("*") or Rule()


def parse(text: str, ops: Iterable[str]) -> Policy:
    """Parse ``text``; ``ops`` are the names that exist.

    Raises:
        OpError: a rule without "=", an unknown op (with the nearest name), an empty or repeated choice.
    """
    known = set(ops)
    rules: dict[str, Rule] = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        op, equals, choices = (s.strip() for s in part.partition("="))
        where = f"op policy {text!r}: rule {part!r}"
        if not equals or not choices:
            raise OpError(f'{where} is not "op=choice[,choice…]", for example "rms_norm=reference"')
        if op != "*" and op not in known:
            near = difflib.get_close_matches(op, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the ops are {', '.join(sorted(known))}"
            raise OpError(f"{where} names the unknown op {op!r}; {hint}")
        if op in rules:
            raise OpError(f"{where}: {op!r} has a rule already; join the choices with commas")
        rules[op] = _rule([c.strip() for c in choices.split(",")], where)
    return Policy(text, rules)


def _rule(choices: list[str], where: str) -> Rule:
    prefer = [c for c in choices if not c.startswith("-") and c != "*"]
    forbid = {c[1:].strip() for c in choices if c.startswith("-")}
    if "" in choices or "" in forbid:
        raise OpError(f"{where} has an empty choice")
    both = forbid.intersection(prefer)
    if both:
        raise OpError(f"{where} both allows and forbids {sorted(both)[0]!r}")
    return Rule(tuple(prefer), frozenset(forbid), others=not prefer or "*" in choices)


class _State:
    """The policy in force and the choices made under it. Global to the process, as autograd threads share it."""

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.cache: dict[tuple[Any, ...], Choice] = {}

    def set(self, policy: Policy | None) -> None:
        self.policy, self.cache = policy, {}


state = _State()


def current() -> Policy:
    """The policy in force: the innermost :func:`use`, else ``HETERO_OPS``, else empty."""
    if state.policy is None:
        from hetero.ops import registry

        state.policy = parse(os.environ.get("HETERO_OPS", ""), registry.ops())
    return state.policy


def forget_choices() -> None:
    """Drop cached choices: implementations or their conformance have changed."""
    state.cache = {}


@contextmanager
def use(text: str) -> Iterator[Policy]:
    """Choose implementations for the calls made inside, e.g. ``with use("rms_norm=reference"): ...``.

    The text is added to the policy in force (its rules win). It holds for the whole process, since backward
    passes run on other threads: call ``backward()`` inside the block too.
    """
    from hetero.ops import registry

    outer = current()
    inner = parse(text, registry.ops())
    merged = Policy(";".join(filter(None, (outer.text, inner.text))), {**outer.rules, **inner.rules})
    state.set(merged)
    try:
        yield merged
    finally:
        state.set(outer)
