import pytest
import torch
from torch import nn

from hetero.errors import CheckpointError
from hetero.train.optim import AdamW


def _net(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)).to(dtype)


def _train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int, start: int = 0) -> None:
    dtype = next(net.parameters()).dtype
    for step in range(start, start + steps):
        torch.manual_seed(100 + step)
        optimizer.zero_grad()
        net(torch.randn(5, 8, dtype=dtype)).square().mean().backward()
        optimizer.step()


def test_equals_torch_with_decay_on_matrices_only() -> None:
    ours, theirs = _net(), _net()
    matrices = [p for p in theirs.parameters() if p.ndim > 1]
    vectors = [p for p in theirs.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    _train(ours, AdamW(ours.named_parameters(), 1e-2, weight_decay=0.1), 5)
    _train(theirs, torch.optim.AdamW(groups, lr=1e-2), 5)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_bf16_updates_smaller_than_an_ulp_add_up() -> None:
    # An update of 1e-3 is under half an ulp of 1.0 in bf16 (2^-8): without a master each would be lost.
    weight = nn.Parameter(torch.ones(4, 4, dtype=torch.bfloat16))
    optimizer = AdamW([("w", weight)], 1e-3)
    for _ in range(20):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    master = optimizer.tensors()["master.w"]
    torch.testing.assert_close(master, torch.full((4, 4), 1 - 20e-3), rtol=1e-4, atol=0)
    assert torch.equal(weight.detach(), master.bfloat16())
    assert {k: v.dtype for k, v in optimizer.tensors().items()} == {
        "exp_avg.w": torch.float32,
        "exp_avg_sq.w": torch.float32,
        "master.w": torch.float32,
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_state_by_name_continues_bit_for_bit(dtype: torch.dtype) -> None:
    whole = _net(dtype)
    _train(whole, AdamW(whole.named_parameters(), 1e-2), 6)
    first = _net(dtype)
    before = AdamW(first.named_parameters(), 1e-2)
    _train(first, before, 3)
    tensors = {k: v.clone() for k, v in before.tensors().items()}
    second = _net(dtype)
    second.load_state_dict(first.state_dict())
    after = AdamW(second.named_parameters(), 1e-2)
    after.load(tensors, before.steps())
    _train(second, after, 3, start=3)
    for a, b in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_state_of_other_parameters_is_refused() -> None:
    optimizer = AdamW(_net().named_parameters(), 1e-2)
    with pytest.raises(CheckpointError, match=r"not trained here: other\.weight"):
        optimizer.load({}, {"other.weight": 1})
    with pytest.raises(CheckpointError, match=r"exp_avg of 0\.weight is absent"):
        optimizer.load({}, {"0.weight": 1})
    with pytest.raises(CheckpointError, match=r"is of shape \(2,\), expected \(16, 8\)"):
        optimizer.load({"exp_avg.0.weight": torch.zeros(2)}, {"0.weight": 1})


def test_grad_norm_over_dtypes_and_grad_scale() -> None:
    a, b = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
    optimizer = AdamW([("a", a), ("b", b)], 0.1)
    assert float(optimizer.grad_norm()) == 0.0
    a.grad, b.grad = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0], dtype=torch.bfloat16)
    assert float(optimizer.grad_norm()) == pytest.approx(5.0)
    optimizer.step(grad_scale=torch.tensor(0.5))
    torch.testing.assert_close(optimizer.tensors()["exp_avg.a"], torch.tensor([0.15, 0.0]))


def test_frozen_parameters_are_left_out() -> None:
    net = _net()
    net[0].requires_grad_(False)
    names = [name for name, _ in AdamW(net.named_parameters(), 1e-2).named()]
    assert not any(name.startswith("0.") for name in names)
    assert len(names) == 4
