"""Choosing an implementation, before the call, from declared facts, with the reasons kept.

Order: what the user pinned or preferred; then proven implementations by kind (vendor library, our native
kernel, Triton); then the reference, which always applies. Nothing is ever decided by catching an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hetero.accelerator import Device, device_of
from hetero.errors import OpError
from hetero.ops import conformance, placement, policy, registry
from hetero.ops.impl import Impl
from hetero.ops.spec import Pass
from hetero.ops.where import Facts, dtype_name


@dataclass(frozen=True)
class Verdict:
    """What selection thought of one implementation."""

    impl: Impl
    verdict: str  # "chosen" | "rejected" | "not needed"
    reason: str


@dataclass(frozen=True)
class Decision:
    """A selection with its trail, in the order in which implementations were considered."""

    facts: Facts
    direction: str
    device: Device
    impl: Impl
    trail: tuple[Verdict, ...]
    policy: str

    def why(self) -> str:
        """Why the first implementation passed over was, in short ("cpp: unproven"); "" if none was."""
        first = self.trail[0]
        return "" if first.impl is self.impl else f"{first.impl.name}: {first.reason.partition(':')[0]}"


def decide(facts: Facts, direction: str) -> Decision:
    """Choose for a call with these facts under the policy in force.

    Raises:
        OpError: the policy allows only implementations that cannot serve the call, or one that does not exist;
            float64 on a device that has none.
    """
    device = device_of(facts.device)
    _refuse_float64(facts, device)
    rules = policy.current()
    rule = rules.rule(facts.op)
    impls = registry.impls(facts.op)
    here = [i for i in impls if i.vendor in ("", device.vendor)]
    named = [i for name in rule.prefer for i in here if i.name == name]
    order = named + ([i for i in here if i not in named] if rule.others else [])
    trail: list[Verdict] = []
    chosen: Impl | None = None
    for impl in order:
        if chosen is not None:
            trail.append(
                Verdict(impl, "not needed", _refusal(impl, facts, direction, device, True) or "applies too")
            )
            continue
        reason = _refusal(impl, facts, direction, device, pinned=impl in named)
        if reason is None and impl.name in rule.forbid:
            reason = f"forbidden by policy {rules.text!r}"
        if reason is None:
            chosen = impl
            trail.append(Verdict(impl, "chosen", _because(impl, named)))
        else:
            trail.append(Verdict(impl, "rejected", reason))
    if chosen is None:
        tried = "".join(f"\n  {v.impl.name}: {v.reason}" for v in trail)
        missing = [n for n in rule.prefer if all(i.name != n for i in here)]
        tried += "".join(
            f"\n  {n}: {device.vendor} has no such implementation of {facts.op}" for n in missing
        )
        names = ", ".join(i.name for i in here)
        wider = f"{facts.op}={rule.prefer[0] if rule.prefer else names},*"
        raise OpError(
            f"{facts} {direction}: policy {rules.text!r} leaves nothing that can run on {device}{tried}\n"
            f'  allow another (there are: {names}), for example "{wider}"'
        )
    return Decision(facts, direction, device, chosen, tuple(trail), rules.text)


def _refuse_float64(facts: Facts, device: Device) -> None:
    """Not even the reference is right where a vendor's package computes float64 as something else."""
    if device.caps.fp64.state == "no" and torch.float64 in facts.dtypes:
        raise OpError(f"{facts}: {device} has no float64 ({device.caps.fp64.why}): move it to the CPU")


def check_policy(device: Device) -> None:
    """Refuse a policy in force that pins an op to implementations of which ``device`` has none.

    Raises:
        OpError: the message lists each such op with what there is.
    """
    rules = policy.current()
    wrong = []
    for name in registry.ops():
        rule = rules.rule(name)
        here = [i.name for i in registry.impls(name) if i.vendor in ("", device.vendor)]
        if rule.pinned and not set(rule.prefer).intersection(here):
            wrong.append(f"\n  {name}={','.join(rule.prefer)}: {device.vendor} has {', '.join(here)}")
    if wrong:
        raise OpError(
            f"op policy {rules.text!r} names implementations that do not exist on {device}:{''.join(wrong)}"
        )


def _refusal(impl: Impl, facts: Facts, direction: str, device: Device, pinned: bool) -> str | None:
    if impl.target(direction) is None:
        return f"has no {direction}"
    reason = impl.where.why_not(facts, device)
    if reason is None and not pinned:
        reason = conformance.why_unproven(impl, direction, device, facts.dtype)
    return reason


def _because(impl: Impl, named: list[Impl]) -> str:
    if impl in named:
        return "named by the policy"
    return "always available" if impl.kind == "reference" else f"first proven {impl.kind} implementation"


def dispatcher(pass_: Pass) -> Callable[..., Any]:
    """The function that torch.library calls for ``pass_``: one dictionary look-up, then the kernel."""
    state, dtypes_key = policy.state, pass_.dtypes_key

    def dispatch(*args: Any) -> Any:
        choice = state.cache.get(pass_.key(args) if pass_.shapes_matter else dtypes_key(args))
        if choice is None:
            choice = choose(pass_, args)
        choice.calls += 1
        return choice.fn(*args)

    return dispatch


def choose(pass_: Pass, args: tuple[Any, ...]) -> placement.Choice:
    """Decide for this call, load the function and cache the choice."""
    decision = decide(pass_.facts(args), pass_.direction)
    choice = placement.Choice(
        op=pass_.op.name,
        direction=pass_.direction,
        impl=decision.impl.name,
        dtype=dtype_name(decision.facts.dtype),
        why=decision.why(),
        fn=decision.impl.load(pass_.direction),
        emulated=decision.device.emulated,
    )
    placement.record(choice)
    policy.state.cache[pass_.key(args)] = (
        choice  # the key is final only now: implementations may have been collected
    )
    return choice
