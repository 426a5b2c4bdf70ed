"""The distribution that tokens are drawn from, against the definition."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from hetero.errors import RolloutError
from hetero.rollout.sampling import Sampling, choose

#: more than two blocks of the cumulative sum, and not a multiple of one
VOCABULARY = 600


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.5},
        {"top_k": 5},
        {"top_p": 0.6},
        {"min_p": 0.2},
        {"temperature": 1.7, "top_k": 50, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.3},
    ],
    ids=str,
)
def test_is_transformers_distribution(settings: dict[str, float], generator: torch.Generator) -> None:
    """Draws at even distances over [0, 1) hit every token as often as its probability says."""
    logits = 3 * torch.randn(1, VOCABULARY, generator=generator)
    seen = torch.randint(0, VOCABULARY, (1, 40), generator=generator)
    count = 20_000
    draws = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    tokens, log_probs = choose(
        logits.expand(count, -1),
        [Sampling(**settings)] * count,
        draws,
        [seen[0]] * count,  # type: ignore[arg-type]
    )
    expected = _warped(logits, seen, settings)
    frequency = torch.bincount(tokens, minlength=VOCABULARY) / count
    torch.testing.assert_close(frequency, expected, rtol=0, atol=2 / count)
    plain = torch.log_softmax(logits[0] / settings.get("temperature", 1.0), -1)
    torch.testing.assert_close(log_probs, plain[tokens], rtol=1e-5, atol=1e-5)


def _warped(logits: torch.Tensor, seen: torch.Tensor, settings: dict[str, float]) -> torch.Tensor:
    scores = logits.clone()
    if "repetition_penalty" in settings:
        scores = RepetitionPenaltyLogitsProcessor(settings["repetition_penalty"])(seen, scores)
    if "temperature" in settings:
        scores = TemperatureLogitsWarper(settings["temperature"])(seen, scores)
    if "top_k" in settings:
        scores = TopKLogitsWarper(int(settings["top_k"]))(seen, scores)
    if "top_p" in settings:
        scores = TopPLogitsWarper(settings["top_p"])(seen, scores)
    if "min_p" in settings:
        scores = MinPLogitsWarper(settings["min_p"])(seen, scores)
    return torch.softmax(scores, -1)[0]


def test_rows_may_differ(generator: torch.Generator) -> None:
    logits = torch.randn(3, VOCABULARY, generator=generator)
    settings = [Sampling(temperature=0.0), Sampling(), Sampling(temperature=0.0)]
    draws = torch.tensor([0.3, 0.5, 0.9], dtype=torch.float64)
    tokens, _ = choose(logits, settings, draws, [logits] * 3)
    alone, _ = choose(logits[1:2], settings[1:2], draws[1:2], [logits])
    assert tokens.tolist() == [logits[0].argmax(), alone[0], logits[2].argmax()]


def test_extremes() -> None:
    """A certain token, draws at both ends, and a distribution that float32 cannot sum exactly."""
    logits = torch.full((2, VOCABULARY), -1e30)
    logits[:, 7] = 1e30
    ends = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    tokens, log_probs = choose(logits, [Sampling()] * 2, ends, [logits] * 2)
    assert tokens.tolist() == [7, 7] and log_probs.tolist() == [0, 0]
    flat, _ = choose(torch.zeros(2, VOCABULARY), [Sampling()] * 2, ends, [logits] * 2)
    assert flat.tolist() == [0, VOCABULARY - 1]


@pytest.mark.parametrize(
    "wrong", [{"max_new_tokens": 0}, {"temperature": -1}, {"top_k": -1}, {"top_p": 0}, {"top_p": 1.1}, {"min_p": 2},
              {"repetition_penalty": 0}, {"stop": ("",)}], ids=str,
)  # fmt: skip
def test_wrong_settings_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(RolloutError, match=f"^{next(iter(wrong))} is "):
        Sampling(**wrong)  # type: ignore[arg-type]
