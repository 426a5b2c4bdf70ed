"""Mixtures of experts: sorting, the grouped product, and back, against experts run one by one."""

from __future__ import annotations

import pytest
import torch

from hetero import ops
from hetero.errors import OpError

from .helpers import close, randn


def test_rows_are_ordered_by_expert_then_by_copy(generator):
    experts = torch.tensor([[2, 0], [1, 2], [0, 1]])
    tokens = randn(3, 4, generator=generator)
    permuted, row_id_map = ops.moe_permute(tokens, experts)
    # Copies 0..5 belong to tokens 0 0 1 1 2 2; experts 0 and 1 have copies 1, 4 and 2, 5, expert 2 has 0, 3.
    assert row_id_map.tolist() == [4, 0, 2, 5, 1, 3] and row_id_map.dtype == torch.int32
    close(permuted, tokens[[0, 2, 1, 2, 0, 1]])


def test_the_map_is_the_inverse_of_the_sorting_permutation(generator):
    experts = torch.randint(0, 5, (40, 3), generator=generator)
    _, row_id_map = ops.moe_permute(randn(40, 2, generator=generator), experts)
    order = torch.argsort(experts.flatten(), stable=True)
    assert torch.equal(row_id_map.long(), torch.argsort(order, stable=True))


def test_there_and_back_is_the_sum_of_the_weights(generator):
    tokens = randn(7, 6, generator=generator)
    experts = torch.rand((7, 4), generator=generator).topk(2).indices
    permuted, row_id_map = ops.moe_permute(tokens, experts)
    probs = randn(7, 2, generator=generator).abs()
    close(ops.moe_unpermute(permuted, row_id_map, probs), tokens * probs.sum(1, keepdim=True))
    close(ops.moe_unpermute(permuted, row_id_map, choices=2), tokens * 2)


def test_a_layer_of_experts_gives_the_numbers_and_gradients_of_experts_one_by_one(generator):
    tokens = randn(9, 6, generator=generator, grad=True)
    weight = randn(4, 6, 5, generator=generator, grad=True)
    probs = randn(9, 2, generator=generator, grad=True)
    experts = torch.rand((9, 4), generator=generator).topk(2).indices
    experts[experts == 3] = 0  # an expert without rows
    permuted, row_id_map = ops.moe_permute(tokens, experts)
    offs = experts.flatten().bincount(minlength=4).cumsum(0).to(torch.int32)
    new = ops.moe_unpermute(ops.grouped_matmul(permuted, weight, offs), row_id_map, probs)
    each = torch.einsum("th,ehn->ten", tokens, weight)
    old = (each[torch.arange(9)[:, None], experts] * probs[..., None]).sum(1)
    close(new, old)
    scale = randn(9, 5, generator=generator)
    inputs = (tokens, weight, probs)
    for a, b in zip(
        torch.autograd.grad((new * scale).sum(), inputs), torch.autograd.grad((old * scale).sum(), inputs)
    ):
        close(a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16], ids=str)
def test_grouped_like_torchs(dtype, generator):
    if not hasattr(torch, "_grouped_mm"):
        pytest.skip("this torch has no grouped_mm")
    x, weight = (randn(*s, generator=generator, dtype=dtype) for s in ((8, 16), (3, 16, 8)))
    offs = torch.tensor([3, 3, 8], dtype=torch.int32)
    close(ops.grouped_matmul(x, weight, offs), torch._grouped_mm(x, weight, offs=offs), rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("x", "weight", "offs", "says"),
    [
        ((4, 3), (2, 2, 5), [2, 4], r"\[experts, K, N\]"),
        ((4, 3), (2, 3, 5), [2, 3], "must rise to the 4 rows"),
        ((4, 3), (2, 3, 5), [5, 4], "must rise to the 4 rows"),
        ((4, 3), (2, 3, 5), [4], "offs int32"),
    ],
)
def test_groups_that_do_not_fit_are_named(x, weight, offs, says):
    with pytest.raises(OpError, match=says):
        ops.grouped_matmul(torch.zeros(x), torch.zeros(weight), torch.tensor(offs))


def test_maps_that_do_not_fit_are_named():
    rows = torch.arange(6, dtype=torch.int32)
    with pytest.raises(OpError, match="choices=4"):
        ops.moe_unpermute(torch.zeros(6, 2), rows, choices=4)
    with pytest.raises(OpError, match="row_id_map int32"):
        ops.moe_unpermute(torch.zeros(6, 2), rows.long())
    with pytest.raises(OpError, match="experts int32 or int64"):
        ops.moe_permute(torch.zeros(3, 2), torch.zeros(3, 2))
