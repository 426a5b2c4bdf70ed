"""What choosing an implementation costs: a call through selection beside a direct call of the same function.

Aim: at most 2 µs on a cached choice. The kernel is replaced by a function that does nothing, so that the difference is
selection alone. ``torch.library`` and autograd come on top and are shown for scale.
"""

from __future__ import annotations

import pytest
import torch

import hetero.ops
from hetero.ops import policy, registry
from hetero.ops.select import dispatcher

X, W = torch.randn(4, 4), torch.randn(4)
PASS = registry.op("rms_norm").forward
ARGS = (X, W, 1e-6, 0.0, "llama")


def nothing(*args):
    return args


@pytest.fixture
def chosen():
    """A cached choice whose kernel does nothing."""
    PASS(*ARGS)
    choice = policy.state.cache[PASS.key(ARGS)]
    kernel, choice.fn = choice.fn, nothing
    yield
    choice.fn = kernel


@pytest.mark.benchmark(group="selection, no kernel")
def test_direct_call(benchmark):
    benchmark(nothing, *ARGS)


@pytest.mark.benchmark(group="selection, no kernel")
def test_through_selection(benchmark, chosen):
    benchmark(dispatcher(PASS), *ARGS)


@pytest.mark.benchmark(group="rms_norm of 4 x 4")
@pytest.mark.parametrize(
    "through", ["kernel", "torch.ops", "hetero.ops", "hetero.ops, recorded for backward"]
)
def test_whole_call(benchmark, through):
    PASS(*ARGS)
    x = X.clone().requires_grad_(through.endswith("backward"))
    calls = {
        "kernel": (policy.state.cache[PASS.key(ARGS)].fn, ARGS),
        "torch.ops": (PASS.overload, ARGS),
        "hetero.ops": (hetero.ops.rms_norm, (X, W)),
        "hetero.ops, recorded for backward": (hetero.ops.rms_norm, (x, W)),
    }
    function, args = calls[through]
    benchmark(function, *args)
