"""Where the reference's numbers come from: a copy, the adapter off, another model, or the disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hetero
from hetero.errors import ModelError
from hetero.train.checkpoint import files
from hetero.train.model.lora import add_lora
from hetero.train.model.tiny import tiny_model, tiny_tokenizer
from hetero.train.preference import cache
from hetero.train.preference.reference import Reference
from tests.train.preferences import ALONE, GOLDEN, Trial, judged, pairs, write


def _logits(model: Any) -> torch.Tensor:
    return model(input_ids=torch.arange(8)[None], use_cache=False).logits


def test_an_adapters_reference_is_the_model_without_it() -> None:
    base = tiny_model(tiny_tokenizer(), seed=1)
    expected = _logits(base.eval()).detach()
    model = add_lora(base, r=4, dropout=0.5, modules_to_save=["layers.0.mlp"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                parameter.add_(0.1)
    trained = [p.requires_grad for p in model.parameters()]
    reference = Reference(model.train())
    reference.hold()
    assert reference.model is None
    with reference.active() as active:
        assert active is model and torch.allclose(_logits(active), expected, atol=1e-6)
        assert not model.training
    assert model.training and [p.requires_grad for p in model.parameters()] == trained
    assert not torch.allclose(_logits(model.eval()), expected, atol=1e-2)
    with pytest.raises(ModelError, match="nothing to move"):
        reference.follow(0.5)


def test_a_copy_stays_as_the_policy_was() -> None:
    policy = tiny_model(tiny_tokenizer(), seed=1).train()
    hetero.patch(policy)
    reference = Reference(policy)
    with reference.active() as active:
        assert active is policy  # untrained still
        expected = _logits(active)
    reference.hold()
    with torch.no_grad():
        policy.lm_head.weight.zero_()
    with reference.active() as active:
        assert torch.equal(_logits(active), expected)
        assert not any(p.requires_grad for p in active.parameters())


@pytest.mark.parametrize("algorithm, rows", [("dpo", pairs(7)), ("kto", judged(7))])
def test_precomputed_equals_live_and_needs_no_model(
    tmp_path: Path, algorithm: str, rows: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, rows, algorithm=algorithm, ref_cache_dir="cache", precompute_ref_log_probs=True)
    live = Trial(path, "precompute_ref_log_probs=false")
    monkeypatch.setattr(cache, "ROWS", 3)
    trial = Trial(path, "precompute_ref_batch_size=2")
    assert trial.algorithm._reference is None
    monkeypatch.setattr(trial.algorithm, "live", None)
    for _ in range(2):  # the second with weights that are not the reference's any more
        expected, got = live.numbers(live.step(3)), trial.numbers(trial.step(3))
        assert got == pytest.approx(expected, rel=1e-5, abs=2e-6)


def test_the_golden_numbers_with_a_reference_from_the_disk(tmp_path: Path) -> None:
    path = write(tmp_path, pairs(), algorithm="dpo", ref_cache_dir="cache", precompute_ref_log_probs=True)
    for _ in range(2):  # computed, then read
        trial = Trial(path)
        expected = {k: pytest.approx(v, rel=1e-5, abs=1e-6) for k, v in GOLDEN["dpo"]["sigmoid"].items()}
        assert trial.numbers(trial.step()) == expected


# -- the cache
class _Counting:
    """Computes two numbers from an example, and counts the examples that it was asked about."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, examples: Any) -> torch.Tensor:
        self.asked += len(examples)
        return torch.tensor([[e["x"] / 3 for e in examples], [-e["x"] / 7 for e in examples]])


EXAMPLES = [{"x": float(i)} for i in range(10)]


def _run(folder: Path, compute: Any) -> dict[str, np.ndarray]:
    return cache.log_probs(folder, EXAMPLES, ("a", "b"), compute, 2, ALONE)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "ROWS", 4)


def test_computed_once_exactly_and_in_order(tmp_path: Path) -> None:
    compute = _Counting()
    first = _run(tmp_path / "key", compute)
    again = _run(tmp_path / "key", compute)
    assert compute.asked == 10
    expected = np.array([e["x"] for e in EXAMPLES], np.float32)
    assert np.array_equal(first["a"], expected / np.float32(3)) and np.array_equal(
        first["b"], -expected / np.float32(7)
    )
    assert all(np.array_equal(first[name], again[name]) for name in "ab")


def test_an_interrupted_pass_goes_on(tmp_path: Path) -> None:
    def dying(examples: Any) -> torch.Tensor:
        if examples[0]["x"] >= 6:
            raise KeyboardInterrupt
        return _Counting()(examples)

    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path / "key", dying)
    compute = _Counting()
    whole = _run(tmp_path / "key", compute)
    assert compute.asked == 6  # the first part of 4 was there
    assert np.array_equal(whole["a"], _run(tmp_path / "other", _Counting())["a"])


@pytest.mark.parametrize("damage", ["flip", "cut", "swap"])
def test_a_damaged_part_is_made_again(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "key"
    expected = _run(folder, _Counting())
    path = folder / "part-4" / "numbers.safetensors"
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[-1] ^= 1
        path.write_bytes(content)
    elif damage == "cut":
        path.write_bytes(content[:-4])
    else:  # sound, but of other rows
        shutil.rmtree(folder / "part-4")
        shutil.copytree(folder / "part-8", folder / "part-4")
    compute = _Counting()
    with pytest.warns(UserWarning, match="It is computed again"):
        again = _run(folder, compute)
    assert compute.asked == 4 and np.array_equal(again["a"], expected["a"])
    assert files.verify(folder / "part-4")


def test_a_reference_without_a_number_is_refused_and_not_kept(tmp_path: Path) -> None:
    def broken(examples: Any) -> torch.Tensor:
        return torch.tensor([[torch.nan if e["x"] == 6 else e["x"] for e in examples]] * 2)

    with pytest.raises(ModelError, match="of example 6 is not finite"):
        _run(tmp_path / "key", broken)
    assert [p.name for p in (tmp_path / "key").iterdir()] == ["part-0"]


def test_the_key_is_of_all_that_the_numbers_depend_on(tmp_path: Path) -> None:
    def key(seed: int = 1, rows: Any = None, **facts: Any) -> str:
        trial = Trial(write(tmp_path, rows or pairs(2), algorithm="dpo"))
        model = tiny_model(tiny_tokenizer(), seed=seed)
        return cache.key_of(model, trial.examples.sequences, facts)

    assert key() == key()
    changed = pairs(2)
    changed[1]["rejected"][0]["content"] += "!"
    assert len({key(), key(seed=2), key(rows=pairs(3)), key(rows=changed), key(ld_alpha=0.5)}) == 5


def test_the_keys_of_a_run_tell_settings_apart(tmp_path: Path) -> None:
    path = write(tmp_path, pairs(2), algorithm="dpo", precompute_ref_log_probs=True, ref_cache_dir="cache")
    for override in ("beta=0.2", "ld_alpha=0.5", "ld_alpha=0.6", "loss_type=ipo"):
        Trial(path, override)
    assert len(list((tmp_path / "cache").iterdir())) == 3  # beta and the loss are no part of the numbers


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer(400)
    model = tiny_model(tokenizer)
    model.save_pretrained(tmp_path / "other")
    tokenizer.save_pretrained(tmp_path / "other")
    path = write(tmp_path, pairs(2), algorithm="dpo", ref_model_name_or_path="other")
    from hetero.train import recipe
    from hetero.train.algorithms import create
    from hetero.train.distributed import Engine

    algorithm: Any = create(recipe.load(path, []), tiny_tokenizer())
    policy = tiny_model(tiny_tokenizer())
    with pytest.raises(ModelError, match="another vocabulary"):
        algorithm.begin(Engine(policy, algorithm, hetero.device("cpu"), ALONE), {})
    assert json.loads((tmp_path / "other" / "config.json").read_text())["vocab_size"] == 400
