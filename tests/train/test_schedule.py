import pytest
import torch

from hetero.errors import RecipeError
from hetero.train import schedule


@pytest.mark.parametrize("name", ["linear", "cosine", "constant_with_warmup"])
@pytest.mark.parametrize(("total", "warmup"), [(10, 0), (10, 3), (7, 7), (1, 0), (5, 8)])
def test_equals_transformers(name: str, total: int, warmup: int) -> None:
    from transformers import get_scheduler

    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    theirs = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total)
    for step in range(total):
        assert schedule.factor(name, step, total, warmup) == pytest.approx(theirs.get_last_lr()[0], abs=1e-15)
        optimizer.step()
        theirs.step()


def test_constant_honours_warmup() -> None:
    assert [schedule.factor("constant", s, 4, 2) for s in range(4)] == [0.0, 0.5, 1.0, 1.0]


def test_warmup_steps_win_over_the_ratio_which_rounds_up() -> None:
    assert schedule.warmup_steps(101, 0, 0.1) == 11
    assert schedule.warmup_steps(101, 5, 0.1) == 5
    assert schedule.warmup_steps(101) == 0


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(RecipeError, match=r"'step' is not known; use one of linear, cosine"):
        schedule.factor("step", 0, 1)
