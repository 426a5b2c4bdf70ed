import pytest

from hetero.errors import CheckpointError
from hetero.train.checkpoint import compat

RECIPE = {"learning_rate": 1e-3, "max_steps": 5, "seed": 1}
BASE = {"recipe": RECIPE, "data": "abc", "op_policy": "", "world_size": 1}


def _with(**changes: object) -> dict:
    recipe = {**RECIPE, **changes.pop("recipe", {})}  # type: ignore[dict-item]
    return {**BASE, "recipe": recipe, **changes}


def test_equal_and_harmless_changes_pass() -> None:
    assert compat.check(BASE, _with(), where="c") == {}
    assert compat.check(BASE, _with(recipe={"max_steps": 9}), where="c") == {"max_steps": "5 -> 9"}


def test_other_changes_are_shown_and_refused() -> None:
    other = _with(recipe={"learning_rate": 2e-3, "seed": 2}, data="abd", op_policy="*=reference")
    with pytest.raises(CheckpointError) as caught:
        compat.check(BASE, other, where="run/checkpoint-3")
    message = str(caught.value)
    for part in ("run/checkpoint-3", "rate: 0.001 -> 0.002", "seed: 1 -> 2", "data: content", "op_policy"):
        assert part in message


def test_allowed_by_name_or_all() -> None:
    other = _with(recipe={"learning_rate": 2e-3}, data="abd")
    with pytest.raises(CheckpointError, match="data: content"):
        compat.check(BASE, other, where="c", allowed=["learning_rate"])
    for allowed in (["learning_rate", "data"], ["all"]):
        assert set(compat.check(BASE, other, where="c", allowed=allowed)) == {"learning_rate", "data"}


def test_another_world_size_is_always_refused() -> None:
    with pytest.raises(CheckpointError, match=r"written by 1 process.es. and this run has 2"):
        compat.check(BASE, _with(world_size=2), where="c", allowed=["all"])


def test_nested_and_absent_keys() -> None:
    assert compat.differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}, "d": None, "e": 1}) == {
        "a.c": "2 -> 3",
        "e": "None -> 1",
    }
