"""Random numbers: the same generator state gives the same numbers, whatever was drawn before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

N = 4000

DRAWS: dict[str, Callable[[], torch.Tensor]] = {
    "rand": lambda: torch.rand(N, device="npu"),
    "randn": lambda: torch.randn(N, device="npu"),
    "randint": lambda: torch.randint(3, 17, (N,), device="npu"),
    "randperm": lambda: torch.randperm(N, device="npu"),
    "normal_": lambda: torch.empty(N, device="npu").normal_(2, 0.5),
    "normal_tensors": lambda: torch.normal(torch.zeros(N, device="npu"), torch.ones(N, device="npu")),
    "normal_mean": lambda: torch.normal(torch.zeros(N, device="npu"), 2.0),
    "normal_std": lambda: torch.normal(1.0, torch.ones(N, device="npu")),
    "uniform_": lambda: torch.empty(N, device="npu").uniform_(-2, 3),
    "bernoulli": lambda: torch.bernoulli(torch.full((N,), 0.3, device="npu")),
    "bernoulli_": lambda: torch.empty(N, device="npu").bernoulli_(0.3),
    "random_": lambda: torch.empty(N, dtype=torch.int64, device="npu").random_(),
    "exponential_": lambda: torch.empty(N, device="npu").exponential_(2.0),
    "sim_exponential_": lambda: torch.ops.npu.npu_sim_exponential_(torch.empty(N, device="npu"), 2.0),
    "multinomial": lambda: torch.multinomial(
        torch.tensor([0.1, 0.6, 0.3], device="npu"), N, replacement=True
    ),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(N, device="npu"), 0.3),
    "rand_bfloat16": lambda: torch.rand(N, device="npu", dtype=torch.bfloat16),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    draw = DRAWS[name]
    torch.npu.manual_seed(3)
    first, second = draw().cpu(), draw().cpu()
    assert not torch.equal(first, second)
    torch.npu.manual_seed(3)
    assert torch.equal(draw().cpu(), first)
    state = torch.npu.get_rng_state()
    assert torch.equal(draw().cpu(), second)
    torch.npu.set_rng_state(state)
    assert torch.equal(draw().cpu(), second)
    torch.npu.manual_seed(4)
    assert not torch.equal(draw().cpu(), first)


def test_distributions() -> None:
    torch.npu.manual_seed(0)
    x = {name: draw().cpu().double() for name, draw in DRAWS.items()}
    near = pytest.approx
    assert x["rand"].mean() == near(0.5, abs=0.03) and x["rand"].min() >= 0 and x["rand"].max() < 1
    assert x["rand_bfloat16"].max() < 1
    assert x["randn"].mean() == near(0, abs=0.08) and x["randn"].std() == near(1, abs=0.08)
    assert x["normal_"].mean() == near(2, abs=0.05) and x["normal_"].std() == near(0.5, abs=0.05)
    assert x["normal_mean"].std() == near(2, abs=0.15) and x["normal_std"].mean() == near(1, abs=0.1)
    assert (
        x["uniform_"].min() >= -2 and x["uniform_"].max() < 3 and x["uniform_"].mean() == near(0.5, abs=0.1)
    )
    assert set(x["randint"].tolist()) == set(range(3, 17))
    assert sorted(x["randperm"].tolist()) == list(range(N))
    assert x["bernoulli"].mean() == near(0.3, abs=0.04) and x["bernoulli_"].mean() == near(0.3, abs=0.04)
    assert x["exponential_"].mean() == near(0.5, abs=0.05)
    assert x["sim_exponential_"].mean() == near(0.5, abs=0.05)
    assert torch.bincount(x["multinomial"].long()).tolist() == near([400, 2400, 1200], abs=150)
    assert (x["dropout"] == 0).double().mean() == near(0.3, abs=0.04)
    assert x["dropout"].max() == near(1 / 0.7)


def test_multinomial_without_replacement() -> None:
    x = torch.multinomial(torch.tensor([[1.0, 2, 3, 4], [4, 0, 2, 1]]).npu(), 3).cpu()
    assert all(len(set(row)) == 3 for row in x.tolist()) and 1 not in x[1]


def test_a_generator_of_ones_own() -> None:
    def draw(seed: int) -> torch.Tensor:
        return torch.rand(8, device="npu", generator=torch.Generator(device="npu").manual_seed(seed)).cpu()

    assert torch.equal(draw(1), draw(1)) and not torch.equal(draw(1), draw(2))


def test_dropout_backward_uses_the_same_mask() -> None:
    for p in (0.1, 0.5, 0.9):
        x = torch.ones(N, device="npu", requires_grad=True)
        y = torch.nn.functional.dropout(x, p)
        y.sum().backward()
        assert x.grad is not None and torch.equal(x.grad.cpu(), y.detach().cpu())


def test_recomputing_a_checkpoint_repeats_its_dropout() -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) * torch.rand_like(x)

    gradients = []
    for recompute in (False, True):
        torch.npu.manual_seed(5)
        x = torch.ones(64, device="npu", requires_grad=True)
        y = checkpoint(block, x, use_reentrant=False) if recompute else block(x)
        y.sum().backward()
        assert x.grad is not None
        gradients.append((y.detach().cpu(), x.grad.cpu()))
    assert torch.equal(gradients[0][0], gradients[1][0]) and torch.equal(gradients[0][1], gradients[1][1])
