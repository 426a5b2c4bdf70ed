"""The grammar of HETERO_OPS, and who wins."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import hetero.ops as ops
from hetero.errors import OpError
from hetero.ops import policy, registry

OPS = registry.ops()


def test_rules_are_parsed():
    parsed = policy.parse(" rms_norm = triton, cpp ; rope=-cpp;*=reference ", OPS)
    assert parsed.rule("rms_norm") == policy.Rule(("triton", "cpp"), frozenset(), others=False)
    assert parsed.rule("rms_norm").pinned
    assert parsed.rule("rope") == policy.Rule((), frozenset({"cpp"}), others=True)
    assert parsed.rule("swiglu").prefer == ("reference",)
    assert policy.parse("rms_norm=triton,*", OPS).rule("rms_norm") == policy.Rule(
        ("triton",), frozenset(), True
    )
    assert policy.parse("", OPS).rule("rope") == policy.Rule()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rms_norm", 'not "op=choice'),
        ("rms_norm=", 'not "op=choice'),
        ("rmsnorm=cpp", "did you mean 'rms_norm'"),
        ("zzz=cpp", "the ops are"),
        ("rope=cpp;rope=reference", "has a rule already"),
        ("rope=cpp,,reference", "empty choice"),
        ("rope=cpp,-cpp", "both allows and forbids"),
    ],
)
def test_mistakes_are_named(text, says):
    with pytest.raises(OpError, match=says):
        policy.parse(text, OPS)


def test_use_nests_and_restores():
    outer = policy.current()
    with ops.use("*=reference"), ops.use("rope=-reference,*") as inner:
        assert inner.rule("rms_norm").prefer == ("reference",)
        assert inner.rule("rope").forbid == {"reference"}
    assert policy.current() is outer
    with pytest.raises(ZeroDivisionError), ops.use("*=reference"):
        1 / 0  # noqa: B018
    assert policy.current() is outer


def test_a_choice_made_under_one_policy_does_not_leak_into_another():
    x = torch.randn(2, 8)
    ops.rms_norm(x)
    with ops.use("rms_norm=reference"):
        ops.reset_placement()
        ops.rms_norm(x)
        assert [r["impl"] for r in ops.placement()] == ["reference"]


def test_the_environment_is_read_and_checked():
    code = "import torch, hetero.ops as o; o.rms_norm(torch.randn(2, 8)); print(o.current_policy().text)"
    run = [sys.executable, "-c", code]
    good = subprocess.run(run, env={"HETERO_OPS": "*=reference"}, capture_output=True, text=True)
    assert good.stdout.strip() == "*=reference", good.stderr
    bad = subprocess.run(run, env={"HETERO_OPS": "rmsnorm=cpp"}, capture_output=True, text=True)
    assert bad.returncode and "did you mean 'rms_norm'" in bad.stderr
