"""SFT against recorded numbers of TRL, and the rules that a loss over windows must keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import hetero
from hetero.train.algorithms import SFT, add_noise
from hetero.train.data.builtin import arithmetic
from hetero.train.distributed import Engine
from hetero.train.model.tiny import tiny_model, tiny_tokenizer
from hetero.train.optim import AdamW
from hetero.train.runner import checkpoint_activations
from hetero.train.window import Stepper, StepResult

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "trl_sft.json").read_text())["sft"]
ALONE = SimpleNamespace(rank=0, world_size=1, group=None)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], list[dict[str, Any]]]:
    """The golden data, encoded by our own pipeline: all tokens, or the assistant's alone."""
    from hetero.train import recipe
    from hetero.train.data.dataset import build

    folder = tmp_path_factory.mktemp("golden")
    rows = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a * (1 + i % 3)}]}
        for i, (q, a, _) in enumerate(arithmetic(8))
    ]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def encode(assistant: bool) -> list[dict[str, Any]]:
        keys = {
            "model_name_or_path": "hetero:tiny-qwen2",
            "dataset_name": "train.jsonl",
            "max_length": 256,
            "assistant_only_loss": assistant,
        }
        (folder / "recipe.yaml").write_text(json.dumps(keys))
        return list(build(recipe.load(folder / "recipe.yaml", []), tiny_tokenizer())[0])

    return encode


def _stepper(
    loss_type: str = "nll", *, seed: int = 1, patch: bool = False, max_norm: float = 1e9
) -> tuple[Stepper, torch.nn.Module]:
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer, seed=seed).train()
    if patch:
        hetero.patch(model)
    algorithm = SFT(SimpleNamespace(loss_type=[loss_type]), tokenizer)
    engine = Engine(model, algorithm, hetero.device("cpu"), ALONE)
    return Stepper(model, algorithm, engine, AdamW(model.named_parameters(), 1e-3), max_norm), model


def _split(examples: Sequence[Any], size: int) -> list[list[Any]]:
    return [list(examples[i : i + size]) for i in range(0, len(examples), size)]


def _numbers(result: StepResult, model: torch.nn.Module) -> dict[str, float]:
    with torch.no_grad():
        weights = float(sum(p.double().abs().sum() for p in model.parameters()))
    return {"loss": result.loss, "grad_norm": result.grad_norm, "w": weights}


@pytest.mark.parametrize("patch", [False, True], ids=["plain", "patched"])
@pytest.mark.parametrize("size", [8, 4, 2, 1])
@pytest.mark.parametrize("name", ["nll", "assistant", "dft"])
def test_equals_trl_in_every_split(examples: Any, name: str, size: int, patch: bool) -> None:
    stepper, model = _stepper("dft" if name == "dft" else "nll", patch=patch)
    result = stepper(_split(examples(name == "assistant"), size), 1e-3)
    assert _numbers(result, model) == pytest.approx(GOLDEN[f"{name}_bs{size}_ga{8 // size}"], rel=1e-5)


def test_neftune_equals_trl(examples: Any) -> None:
    stepper, model = _stepper()
    add_noise(model, alpha=5.0)
    torch.manual_seed(0)
    torch.empty((), dtype=torch.int64).random_()  # Transformers' data loader has drawn its seed by now
    result = stepper(_split(examples(False), 8), 1e-3)
    assert _numbers(result, model) == pytest.approx(GOLDEN["nll_neftune5_bs8"], rel=1e-5)


def test_a_partial_last_window_is_normalised_by_its_own_tokens(examples: Any) -> None:
    rows = examples(False)
    split, model = _stepper()
    whole, reference = _stepper()
    first = split(_split(rows[:6], 2), 1e-3)
    second = split(_split(rows[6:], 2), 1e-3)  # one micro-batch where others have three
    assert _numbers(whole([rows[:6]], 1e-3), reference)["loss"] == pytest.approx(first.loss, rel=1e-6)
    expected = _numbers(whole([rows[6:]], 1e-3), reference)
    assert _numbers(second, model) == pytest.approx(expected, rel=1e-6)


def test_uneven_micro_batches_still_give_the_token_mean(examples: Any) -> None:
    rows = examples(True)
    stepper, model = _stepper()
    result = stepper([rows[:1], rows[1:7], rows[7:]], 1e-3)
    assert _numbers(result, model) == pytest.approx(GOLDEN["assistant_bs8_ga1"], rel=1e-5)


@pytest.mark.parametrize("loss_type", ["nll", "dft"])
def test_all_tokens_masked_gives_zero_and_changes_nothing(loss_type: str) -> None:
    stepper, model = _stepper(loss_type)
    before = [p.clone() for p in model.parameters()]
    masked = {"input_ids": [5, 6, 7], "labels": [-100] * 3}
    result = stepper([[masked, masked], []], 1e-3)
    assert (result.loss, result.grad_norm, result.applied) == (0.0, 0.0, True)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_packed_documents_count_as_if_they_were_apart(examples: Any) -> None:
    rows = examples(False)
    packed = {
        "input_ids": [i for row in rows for i in row["input_ids"]],
        "labels": [i for row in rows for i in row["labels"]],
        "seq_lengths": [len(row["input_ids"]) for row in rows],
    }
    stepper, model = _stepper()
    result = stepper([[packed]], 1e-3)
    assert _numbers(result, model) == pytest.approx(GOLDEN["nll_bs8_ga1"], rel=1e-5)
    assert result.tokens == sum(packed["seq_lengths"])


def test_clipping_scales_the_update_not_the_reported_norm(examples: Any) -> None:
    rows = examples(False)
    free, _ = _stepper()
    clipped, model = _stepper(max_norm=0.5)
    assert clipped([rows], 0.0).grad_norm == pytest.approx(free([rows], 0.0).grad_norm)
    # After one step exp_avg is (1 - beta1) times the clipped gradient.
    moments = [s["exp_avg"] for s in clipped._optimizer.state.values()]
    norm = torch.stack([m.norm() for m in moments]).norm() / 0.1
    assert float(norm) == pytest.approx(0.5, rel=1e-4)
    assert model.training


def test_a_step_that_is_not_finite_is_skipped_whole(examples: Any) -> None:
    rows = examples(False)
    stepper, model = _stepper()
    stepper([rows], 1e-3)
    before = {name: p.clone() for name, p in model.named_parameters()}
    moments = {name: t.clone() for name, t in stepper._optimizer.tensors().items()}
    poison = model.get_input_embeddings().register_forward_hook(lambda m, i, out: out * float("nan"))
    result = stepper([rows[:4], rows[4:]], 1e-3)
    poison.remove()
    assert not result.applied
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())
    assert all(torch.equal(moments[name], t) for name, t in stepper._optimizer.tensors().items())
    assert stepper([rows], 1e-3).applied


def test_logits_are_never_held(examples: Any) -> None:
    """No tensor as large as the logits of a long batch is made outside the fused op."""
    stepper, model = _stepper()
    called = []
    model.lm_head.register_forward_hook(lambda *args: called.append(1))
    stepper([examples(False)], 1e-3)
    assert not called


def test_gradient_checkpointing_changes_no_number(examples: Any) -> None:
    rows = examples(False)
    plain, _ = _stepper()
    stepper, model = _stepper()
    checkpoint_activations(model)
    assert model.is_gradient_checkpointing
    expected, got = plain([rows], 1e-3), stepper([rows], 1e-3)
    assert (got.loss, got.grad_norm) == pytest.approx((expected.loss, expected.grad_norm), rel=1e-6)
