from types import SimpleNamespace

import pytest

from hetero.accelerator import Caps, MemoryInfo, Peak
from hetero.train.machine import Machine
from hetero.train.model.lora import add_lora
from hetero.train.model.tiny import tiny_model, tiny_tokenizer


def _device(peak: Peak | None = None, held: int | None = 2**30) -> SimpleNamespace:
    memory = MemoryInfo(free=None, total=None, allocated=held, reserved=None, peak=None)
    return SimpleNamespace(
        emulated=False, caps=Caps(peaks={"fp32": peak} if peak else {}), memory=lambda: memory
    )


STEP = SimpleNamespace(tokens=100)


def test_no_peak_no_mfu_and_no_memory_no_memory() -> None:
    model = tiny_model(tiny_tokenizer())
    assert Machine(model, _device(), 1).numbers(STEP, 1.0) == {"memory_gib": 1.0}
    assert Machine(model, _device(held=None), 1).numbers(STEP, 1.0) == {}


@pytest.mark.parametrize("ranks", [1, 2])
def test_mfu_counts_matrices_once_and_frozen_ones_less(ranks: int) -> None:
    device = _device(Peak(1e12, "FLOP/s", "measured", "here"))
    model = tiny_model(tiny_tokenizer())
    # 2 layers: q and o 128 x 128, k and v 128 x 64, three of 128 x 384; the head 128 x 512, tied to the embedding.
    matrices = 2 * (2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 384) + 128 * 512
    mfu = Machine(model, device, ranks).numbers(STEP, 0.5)["mfu"]
    assert mfu == pytest.approx(6 * matrices * 100 / 0.5 / 1e12 / ranks)
    adapted = add_lora(model, r=2)
    small = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    mfu = Machine(adapted, device, ranks).numbers(STEP, 0.5)["mfu"]
    assert mfu == pytest.approx((4 * matrices + 6 * small) * 100 / 0.5 / 1e12 / ranks)
