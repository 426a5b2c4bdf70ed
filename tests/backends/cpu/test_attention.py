"""attention and attention_varlen over torch's flash attention for the CPU."""

from __future__ import annotations

import os

import pytest
import torch

import hetero
from hetero import ops
from hetero.backends.cpu import attention
from hetero.backends.cpu import ops as cpu_ops
from hetero.conform import ops as conform
from hetero.ops import registry


@pytest.fixture(params=[True, False], ids=["grouped", "repeated"])
def groups(request, monkeypatch) -> None:
    """With the grouped heads of this torch, and as in a torch whose kernel wants a key head for each query head."""
    if request.param and not attention._knows_groups():
        pytest.skip(f"the kernel of torch {torch.__version__} has no grouped heads")
    monkeypatch.setattr(attention, "_knows_groups", lambda: request.param)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("impl", cpu_ops._attention(), ids=lambda impl: impl.op)
def test_conforms(groups, impl, dtype) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    cases = conform.cases(registry.op(impl.op), impl, hetero.device("cpu"), dtype, seed)
    assert len(cases) > 15
    assert [c for c in cases if c.failed] == [], f"seed {seed}"


def test_it_is_chosen_where_it_applies() -> None:
    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))
    wide = torch.randn(1, 2, 5, 16)
    for tensors, options, chosen in (
        ((q, k, v), {}, "sdpa"),
        ((q.double(), k.double(), v.double()), {}, "reference"),
        ((q, k, wide), {}, "reference"),
        ((q, k, v), {"softcap": 3.0}, "reference"),
    ):
        explanation = ops.explain("attention", *tensors, scale=1.0, causal=True, **options)
        assert explanation.as_dict()["forward"]["chosen"] == chosen, explanation
