"""Advantages against plain loops over groups and tokens."""

from __future__ import annotations

import math
import statistics

import pytest
import torch

from hetero.train.policy import advantages

NAN = math.nan


def test_group_relative_by_hand(generator: torch.Generator) -> None:
    rewards = torch.randn(12, generator=generator)
    rewards[5] = NAN
    found = advantages.group_relative(rewards, 4)
    for start in range(0, 12, 4):
        own = [r for r in rewards[start : start + 4].tolist() if r == r]
        mean, std = statistics.mean(own), statistics.stdev(own)
        for i in range(start, start + 4):
            reward = float(rewards[i])
            expected = 0.0 if reward != reward else (reward - mean) / (std + 1e-4)
            assert found[i].item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_scales() -> None:
    rewards = torch.tensor([0.0, 2.0, 10.0, 14.0])
    assert advantages.group_relative(rewards, 2, "none").tolist() == [-1, 1, -2, 2]
    std = statistics.stdev(rewards.tolist())
    batch = advantages.group_relative(rewards, 2, "batch")
    torch.testing.assert_close(batch, torch.tensor([-1.0, 1, -2, 2]) / (std + 1e-4))
    with pytest.raises(ValueError, match="scale 'x'"):
        advantages.group_relative(rewards, 2, "x")


@pytest.mark.parametrize("value", [0.1, 1e6, -3.3])
def test_equal_rewards_teach_nothing(value: float) -> None:
    assert advantages.group_relative(torch.full((8,), value), 8).abs().max() < 1e-2
    assert advantages.leave_one_out(torch.full((8,), value), 8).abs().max() <= abs(value) * 1e-6


def test_unscored_rows_and_groups_are_zero_and_shift_nobody() -> None:
    rewards = torch.tensor([1.0, NAN, NAN, 3.0, NAN, NAN, NAN, NAN])
    for found in (advantages.group_relative(rewards, 4), advantages.leave_one_out(rewards, 4)):
        assert found.isfinite().all() and (found[[1, 2, 4, 5, 6, 7]] == 0).all()
        assert found[0] == -found[3] < 0


def test_leave_one_out_by_hand(generator: torch.Generator) -> None:
    rewards = torch.randn(6, generator=generator)
    found = advantages.leave_one_out(rewards, 3)
    for i in range(6):
        others = [rewards[j].item() for j in range(i // 3 * 3, i // 3 * 3 + 3) if j != i]
        assert found[i].item() == pytest.approx(rewards[i].item() - statistics.mean(others), abs=1e-5)
    with pytest.raises(ValueError, match="at least 2"):
        advantages.leave_one_out(rewards, 1)


def test_rewards_combine_over_functions_that_apply() -> None:
    rewards = torch.tensor([[1.0, 2.0], [NAN, 4.0], [NAN, NAN]])
    total = advantages.combine_rewards(rewards, torch.tensor([1.0, 0.5]))
    assert total[:2].tolist() == [2.0, 2.0] and total[2].isnan()


def test_gdpo_keeps_a_reward_of_small_range_audible() -> None:
    large = torch.tensor([0.0, 0.0, 100.0, 100.0])
    small = torch.tensor([0.0, 0.01, 0.0, 0.01])
    found = advantages.group_of_rewards(torch.stack([large, small], 1), torch.ones(2), 4)
    assert found[1] > found[0] + 0.5 and found[3] > found[2] + 0.5


def test_gae_by_hand(generator: torch.Generator) -> None:
    """Over a mask with a gap (tool output) and padding: as if the masked tokens stood next to each other."""
    mask = torch.tensor([[1.0, 1, 0, 0, 1, 1, 0]])
    rewards, values = torch.randn(1, 7, generator=generator), torch.randn(1, 7, generator=generator)
    gamma, lam = 0.9, 0.8
    found, returns = advantages.generalized(rewards, values, mask, gamma, lam)
    kept = [0, 1, 4, 5]
    r, v = rewards[0, kept].tolist(), values[0, kept].tolist()
    deltas = [r[i] + gamma * (v[i + 1] if i < 3 else 0) - v[i] for i in range(4)]
    for i, at in enumerate(kept):
        expected = sum((gamma * lam) ** (k - i) * deltas[k] for k in range(i, 4))
        assert found[0, at].item() == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert returns[0, at].item() == pytest.approx(expected + v[i], rel=1e-4, abs=1e-5)
    assert (found[0, [2, 3, 6]] == 0).all() and (returns[0, [2, 3, 6]] == 0).all()


def test_returns_to_go() -> None:
    found = advantages.returns_to_go(
        torch.tensor([[1.0, 9.0, 2.0, 4.0]]), torch.tensor([[1.0, 0, 1, 1]]), 0.5
    )
    assert found.tolist() == [[3.0, 0.0, 4.0, 4.0]]


def test_whiten(generator: torch.Generator) -> None:
    values = 5 + 3 * torch.randn(4, 9, generator=generator)
    mask = (torch.rand(4, 9, generator=generator) < 0.7).float()
    white = advantages.whiten(values, mask)
    kept = white[mask.bool()]
    assert kept.mean().abs() < 1e-5 and kept.std() == pytest.approx(1, rel=1e-4)
    assert (white[~mask.bool()] == 0).all()
    shifted = advantages.whiten(values, mask, shift_mean=False)[mask.bool()]
    assert shifted.mean().item() == pytest.approx(values[mask.bool()].mean().item(), rel=1e-4)
    assert (advantages.whiten(values, torch.zeros_like(mask)) == 0).all()
