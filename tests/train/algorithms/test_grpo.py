"""GRPO on the loop: TRL's numbers, whole runs, resuming between the uses of a rollout, ranks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import hetero
from hetero.errors import RecipeError
from hetero.train import recipe, run
from hetero.train.algorithms import GRPO
from hetero.train.algorithms.scoring import score
from hetero.train.distributed import Engine
from hetero.train.model.tiny import tiny_model, tiny_tokenizer
from hetero.train.policy import aggregation
from hetero.train.preference.reference import Reference
from tests.multiprocess import spawn
from tests.train.algorithms import grpo_ranks

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "trl_grpo.json").read_text())["grpo"]
KEYS: dict[str, dict[str, Any]] = {
    **{loss: {"loss_type": loss} for loss in ("grpo", "bnpo", "dr_grpo", "dapo", "sapo", "vespo")},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
    "dapo_clip_higher": {"loss_type": "dapo", "epsilon_high": 0.28},
    "dapo_delta1.5": {"loss_type": "dapo", "delta": 1.5},
    "gspo(grpo+sequence)": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    "luspo+sequence": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "grpo_kl_k3": {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False},
    "grpo_kl_k3_is": {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": True},
    "dapo_top_entropy_0.5": {"loss_type": "dapo", "top_entropy_quantile": 0.5},
    "dapo_entropy_coef_0.01": {"loss_type": "dapo", "entropy_coef": 0.01},
}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Any]:
    """Recipes of GRPO on the tiny model, rewarded for digits; 2 prompts a step, 4 completions each."""
    (tmp_path / "mine.py").write_text(
        "def digits(completions, **_):\n"
        "    texts = [c if isinstance(c, str) else c[-1]['content'] for c in completions]\n"
        "    return [sum(ch.isdigit() for ch in t) / max(len(t), 1) for t in texts]\n"
    )

    def make(**keys: Any) -> Any:
        values = {
            "algorithm": "grpo",
            "model_name_or_path": "hetero:tiny-qwen2",
            "dataset_name": "hetero:arithmetic?rows=20",
            "reward_funcs": ["mine.py:digits"],
            "num_generations": 4,
            "max_completion_length": 6,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 2,
            "learning_rate": 1e-3,
            "max_steps": 4,
            "report_to": "none",
            "logging_steps": 1,
            "output_dir": str(tmp_path / "run"),
        }
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps(values | keys))
        return recipe.load(path, [])

    return make


@pytest.fixture
def train(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    from hetero.train import report

    monkeypatch.setattr(report, "loss_curve", lambda run_dir: None)
    return lambda **keys: run(make(**keys), hetero.device("cpu"))


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_every_golden_setting_is_here() -> None:
    assert set(KEYS) == set(GOLDEN)


@pytest.mark.parametrize("patched", [False, True], ids=["plain", "patched"])
@pytest.mark.parametrize("setting", KEYS)
def test_equals_trl(setting: str, patched: bool, make: Callable[..., Any]) -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer, seed=1).train()
    if patched:
        hetero.patch(model)
    given = make(max_completion_length=16, num_iterations=2, **KEYS[setting])
    algorithm = GRPO(given, tokenizer)
    batch = _golden_batch(algorithm, model, given)
    loss, sums = algorithm.loss(model, batch, algorithm.items(batch))
    loss.backward()
    norm = sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None) ** 0.5
    expected = GOLDEN[setting]
    assert loss.item() == pytest.approx(expected["loss"], rel=1e-5, abs=5e-7)
    assert norm == pytest.approx(expected["grad_norm"], rel=1e-5)
    for name in ("kl", "entropy", "clip_ratio/region_mean"):
        if name in expected and not (name.startswith("clip") and "sequence" in setting):
            above, below = sums[name].tolist()
            assert above / below == pytest.approx(expected[name], rel=1e-5)


def _golden_batch(algorithm: GRPO, model: torch.nn.Module, given: Any) -> dict[str, Any]:
    """The hand-made rollouts of the golden numbers: 6 prompt and up to 10 completion tokens, torch seed 7."""
    draw = torch.Generator().manual_seed(7)
    prompts = torch.randint(3, 300, (4, 6), generator=draw).tolist()
    completions = torch.randint(3, 300, (4, 10), generator=draw).tolist()
    prompts[1] = prompts[1][2:]
    rollouts = [
        {
            "prompt_ids": prompts[i],
            "ids": completions[i][:length],
            "log_probs": [0.0] * length,
            "truncated": False,
            "rewards": [1.0],
            "text": "",
            "advantage": advantage,
        }
        for i, (length, advantage) in enumerate(zip((10, 7, 4, 9), (1.2, -0.7, 0.4, -0.9)))
    ]
    batch = algorithm.collate(rollouts)
    with torch.no_grad():
        own = score(model, batch).log_p
    mask = batch["mask"]
    batch["sampled"] = own + 0.3 * torch.randn(4, 10, generator=draw) * mask
    batch["reference"] = own + 0.2 * torch.randn(4, 10, generator=draw) * mask
    return batch


def test_a_run_raises_the_reward(train: Callable[..., Any], tmp_path: Path) -> None:
    keys = {
        "per_device_train_batch_size": 16,
        "gradient_accumulation_steps": 1,
        "lr_scheduler_type": "constant",
    }
    train(max_steps=12, learning_rate=4e-3, **keys)
    rewards = [row["reward"] for row in rows(tmp_path / "run")]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.05
    for name in ("rewards/digits/mean", "reward_std", "completions/mean_length", "entropy"):
        assert name in rows(tmp_path / "run")[0]


@pytest.mark.parametrize(
    "keys", [{}, {"num_iterations": 3, "beta": 0.1}, {"use_peft": True, "beta": 0.1}], ids=str
)
def test_resume_is_bit_for_bit(train: Callable[..., Any], tmp_path: Path, keys: dict[str, Any]) -> None:
    """Also between the uses of a window's completions, which the checkpoint holds."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(**keys, max_steps=5, output_dir=str(whole))
    train(**keys, max_steps=5, save_steps=2, output_dir=str(parts))
    for newer in ("checkpoint-4", "checkpoint-5"):
        _remove(parts / newer)
    train(**keys, max_steps=5, save_steps=2, output_dir=str(parts), resume_from_checkpoint=True)
    name = "adapter_model.safetensors" if "use_peft" in keys else "model.safetensors"
    assert (whole / name).read_bytes() == (parts / name).read_bytes()
    volatile = {"step_time", "tokens_per_second", "memory_gib", "mfu"}
    strip = [[{k: v for k, v in row.items() if k not in volatile} for row in rows(d)] for d in (whole, parts)]
    assert strip[0] == strip[1]


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder)


def test_first_use_is_on_policy_and_later_ones_are_not(train: Callable[..., Any], tmp_path: Path) -> None:
    train(num_iterations=2, learning_rate=1e-2)
    apart = [row["sampling/sampling_logp_difference/mean"] for row in rows(tmp_path / "run")]
    assert max(apart[0], apart[2]) < 1e-5 < min(apart[1], apart[3])


@pytest.mark.parametrize(
    "keys", [{}, {"scale_rewards": "batch", "beta": 0.1}, {"advantage_estimator": "gdpo"}], ids=str
)
def test_two_ranks_equal_one(make: Callable[..., Any], keys: dict[str, Any], tmp_path: Path) -> None:
    def numbers(world: int) -> Any:
        path = tmp_path / f"ranks{world}.yaml"
        given = make(
            **keys, per_device_train_batch_size=4, gradient_accumulation_steps=4 // world, max_steps=2
        )
        path.write_text(given.to_yaml())
        return spawn(grpo_ranks.steps, world, args=(str(path), 2))[0].result

    one, two = numbers(1), numbers(2)
    for a, b in zip(one, two, strict=True):
        assert a["reward"] == pytest.approx(b["reward"], rel=1e-6)
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4, abs=1e-6)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-4)
        assert a["w"] == pytest.approx(b["w"], rel=1e-6)


def test_truncated_completions_can_be_left_out(make: Callable[..., Any]) -> None:
    """Out of the loss and of what it is divided by; their reward still counts in the group."""
    tokenizer = tiny_tokenizer()
    algorithm = GRPO(make(mask_truncated_completions=True), tokenizer)
    whole = {"prompt_ids": [5, 6], "ids": [7, 8, 9], "log_probs": [-1.0] * 3, "truncated": False, "rewards": [1.0],
             "text": "", "advantage": 1.0}  # fmt: skip
    batch = algorithm.collate([whole, whole | {"truncated": True, "ids": [7, 8]}])
    assert batch["mask"].sum(1).tolist() == [3, 0]
    assert algorithm.items(batch) == {"sequences": 2, "tokens": 3}
    assert batch["statistics"]["completions/clipped_ratio"] == [1.0, 2.0]


def test_a_rank_without_prompts_has_a_loss_of_zero(make: Callable[..., Any]) -> None:
    tokenizer = tiny_tokenizer()
    given = make(beta=0.1)
    model = tiny_model(tokenizer)
    algorithm = GRPO(given, tokenizer)
    engine = Engine(model, algorithm, hetero.device("cpu"), SimpleNamespace(rank=0, world_size=1, group=None))
    algorithm._reference = Reference(model)
    (batch, *_) = algorithm.build(engine, [[]])
    items = {name: max(count, 1) for name, count in algorithm.items(batch).items()}
    loss, _ = algorithm.loss(model, engine.to_device(batch), items)
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("kind", list(aggregation.KINDS))
def test_every_loss_trains(train: Callable[..., Any], kind: str) -> None:
    assert train(loss_type=kind, max_steps=1, num_iterations=1).metrics["grad_norm"] > 0


@pytest.mark.parametrize(
    "keys, message",
    [
        ({"num_generations": 3}, "num_generations: 3 completions a prompt do not fill a step of 8"),
        ({"reward_funcs": []}, "reward_funcs: name at least one"),
        ({"reward_funcs": ["lost.py:f"]}, "reward_funcs: the Python file .*lost.py does not exist"),
        ({"reward_weights": [1, 2]}, "reward_weights: 2 weights for 1 reward_funcs"),
        ({"temperature": 0}, "temperature: must be above 0"),
        ({"loss_type": "ppo"}, "grpo has no loss 'ppo'"),
        ({"advantage_estimator": "leave_one_out", "scale_rewards": "none"}, "scale_rewards: has no effect"),
        ({"packing": True}, "packing has no effect"),
    ],
)
def test_recipe_errors(make: Callable[..., Any], keys: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make(**keys)


def test_unknown_reward_is_an_error_before_training(train: Callable[..., Any]) -> None:
    with pytest.raises(RecipeError, match="neither a builtin"):
        train(reward_funcs=["accuracy"])


def test_reward_functions_of_one_name_are_both_kept(make: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("def digits(completions, **_):\n    return [0.0] * len(completions)\n")
    given = make(reward_funcs=["mine.py:digits", "other.py:digits", "repetition"], reward_weights=[1, 2, 3])
    names = GRPO(given, tiny_tokenizer())._rewards.names
    assert len(names) == 3 and names[2] == "repetition"
    assert names[0].endswith("mine.py:digits") and names[1].endswith("other.py:digits")
