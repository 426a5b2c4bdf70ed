import math

import torch

from hetero.train.algorithms.neftune import add_noise
from hetero.train.model.tiny import tiny_model, tiny_tokenizer


def test_noise_is_uniform_in_its_bound_and_only_in_training() -> None:
    model = tiny_model(tiny_tokenizer()).train()
    embed = model.get_input_embeddings()
    ids = torch.arange(400).view(4, 100)
    clean = embed(ids)
    handle = add_noise(model, alpha=5.0)
    noise = embed(ids) - clean
    bound = 5.0 / math.sqrt(100 * 128)
    # 51,200 draws: the standard error of the mean is bound / sqrt(3 * 51200), of the variance about 0.4 %.
    assert noise.abs().max() <= bound * (1 + 1e-5)
    assert noise.abs().max() > 0.99 * bound
    assert abs(noise.mean()) < 5 * bound / math.sqrt(3 * noise.numel())
    assert abs(noise.var() / (bound**2 / 3) - 1) < 0.03
    model.eval()
    assert torch.equal(embed(ids), clean)
    model.train()
    handle.remove()
    assert torch.equal(embed(ids), clean)
