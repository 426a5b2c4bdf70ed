"""Transformers' own models, unmodified, on the emulated device: the CPU's losses, and generation.

Two layers of random weights; eager and SDPA attention, float32 and bfloat16, AdamW in its three forms, gradient
checkpointing. Nothing here knows which operators a model needs.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES = ["Qwen2", "Qwen3", "Llama", "Gemma2"]
ATTENTION = {"Gemma2": "eager"}  # it refuses SDPA: its scores are capped


def _model(family: str, attention: str, dtype: torch.dtype) -> Any:
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SIZES, attn_implementation=attention)
    return getattr(transformers, f"{family}ForCausalLM")(config).to(dtype)


def _batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    ids = torch.randint(3, 97, (2, 12), generator=torch.Generator().manual_seed(1))
    mask, labels = torch.ones_like(ids), ids.clone()
    mask[1, :4] = 0  # padded on the left
    labels[mask == 0] = -100
    labels[:, :5] = -100
    return ids, mask, labels


def _train(
    device: str, family: str, attention: str, dtype: torch.dtype, *, checkpointing: bool = False, **adamw: Any
) -> list[float]:
    model = _model(family, attention, dtype).to(device).train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **adamw)
    ids, mask, labels = (t.to(device) for t in _batch())
    losses = []
    for _ in range(3):
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("family", "attention"),
    [(f, a) for f in FAMILIES for a in ("eager", "sdpa") if a == "eager" or f not in ATTENTION],
)
def test_training_gives_the_cpus_losses(family: str, attention: str) -> None:
    expected = _train("cpu", family, attention, torch.float32)
    assert expected[-1] < expected[0] - 0.05
    assert _train("npu", family, attention, torch.float32) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_training_in_bfloat16(family: str) -> None:
    attention = ATTENTION.get(family, "sdpa")
    expected = _train("cpu", family, attention, torch.bfloat16)
    assert _train("npu", family, attention, torch.bfloat16) == pytest.approx(expected, abs=2e-2)


@pytest.mark.parametrize("adamw", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
def test_training_with_each_adamw(adamw: dict[str, bool]) -> None:
    expected = _train("cpu", "Qwen2", "sdpa", torch.float32)
    assert _train("npu", "Qwen2", "sdpa", torch.float32, **adamw) == pytest.approx(expected, abs=2e-5)


def test_training_with_gradient_checkpointing() -> None:
    expected = _train("npu", "Qwen2", "sdpa", torch.float32)
    assert _train("npu", "Qwen2", "sdpa", torch.float32, checkpointing=True) == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_generation(family: str) -> None:
    ids, mask, _ = _batch()
    out = {}
    for device in ("cpu", "npu"):
        model = _model(family, ATTENTION.get(family, "sdpa"), torch.float32).to(device).eval()
        out[device] = model.generate(
            ids.to(device), attention_mask=mask.to(device), max_new_tokens=8, do_sample=False
        ).cpu()
    assert torch.equal(out["npu"], out["cpu"])


def test_sampling_is_repeatable() -> None:
    ids, mask, _ = (t.npu() for t in _batch())
    model = _model("Qwen2", "sdpa", torch.float32).npu().eval()

    def sample(seed: int) -> torch.Tensor:
        torch.npu.manual_seed(seed)
        return model.generate(
            ids, attention_mask=mask, max_new_tokens=8, do_sample=True, temperature=1.3, top_k=20, top_p=0.9
        ).cpu()

    first = sample(1)
    assert torch.equal(first, sample(1)) and not torch.equal(first, sample(2))


def test_flash_attention_of_transformers() -> None:
    """Its own integration for this device, packed sequences included, against eager attention."""
    expected = _train("cpu", "Qwen2", "eager", torch.float32)
    actual = _train("npu", "Qwen2", "flash_attention_2", torch.float32)
    assert actual == pytest.approx(expected, abs=1e-3)


@pytest.mark.emulated("ascend", races=1)
def test_training_has_no_races() -> None:
    """torch_npu's own task queue and streams, dropout on a second stream included, under the race checker."""
    expected = _train("cpu", "Qwen2", "sdpa", torch.float32)
    assert _train("npu", "Qwen2", "sdpa", torch.float32, foreach=True) == pytest.approx(expected, abs=2e-5)
    x = torch.ones(64, 64, device="npu", requires_grad=True)
    for _ in range(8):
        torch.nn.functional.dropout(x @ x, 0.5).sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad.cpu()).all()
