"""How the next token is drawn from logits.

The order is Transformers': repetition penalty, temperature, top-k, top-p, min-p. Each request has a random
stream of its own, one number a token, so what it gets does not depend on who else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hetero.errors import RolloutError

_BLOCK = 256


@dataclass(frozen=True)
class Sampling:
    """Settings of one request.

    Args:
        max_new_tokens: at most so many tokens are drawn.
        temperature: logits are divided by it; 0 takes the likeliest token.
        top_k: only the k likeliest tokens; 0 is all.
        top_p: only the likeliest tokens that together have this probability.
        min_p: only tokens with at least this share of the likeliest one's probability.
        repetition_penalty: above 1 makes tokens of the prompt and the completion less likely (Keskar et al. 2019).
        stop: strings that end a completion; they stay in it.
        seed: of the request's random stream; None draws one from torch's CPU generator.
    """

    max_new_tokens: int = 256
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        rules = (
            ("max_new_tokens", self.max_new_tokens >= 1, "at least 1"),
            ("temperature", self.temperature >= 0, "at least 0"),
            ("top_k", self.top_k >= 0, "at least 0 (0 is off)"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 to 1"),
            ("repetition_penalty", self.repetition_penalty > 0, "above 0"),
            ("stop", all(self.stop), "strings that are not empty"),
        )
        for name, holds, rule in rules:
            if not holds:
                raise RolloutError(f"{name} is {getattr(self, name)!r}; it must be {rule}")


def choose(
    logits: Tensor, settings: Sequence[Sampling], draws: Tensor, seen: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Draw a token for every row.

    Args:
        logits: [B, V] float32, finite.
        settings: of each row.
        draws: [B] float64 uniform in [0, 1): which token it becomes is the inverse of the cumulative distribution.
        seen: of each row the token ids that the repetition penalty is for.

    Returns:
        Tokens [B] and their log-probabilities [B] float32 under ``softmax(logits / temperature)`` of the whole
        vocabulary, which is what a trainer computes again: neither truncation nor penalty is in it. At
        temperature 0 it is that of temperature 1.
    """
    tokens = torch.empty(logits.shape[0], dtype=torch.long, device=logits.device)
    log_probs = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    alike: dict[tuple[float, ...], list[int]] = {}
    for row, s in enumerate(settings):
        key = (s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty)
        alike.setdefault(key, []).append(row)
    for (temperature, top_k, top_p, min_p, penalty), rows in alike.items():
        at = slice(None) if len(rows) == len(settings) else torch.tensor(rows, device=logits.device)
        own = logits[at]
        drawn = _penalised(own, penalty, [seen[row] for row in rows]) if penalty != 1 else own
        scaled = own / temperature if temperature not in (0, 1) else own
        if temperature == 0:
            chosen = drawn.argmax(-1)
        else:
            drawn = drawn / temperature if drawn is not own else scaled
            chosen = _invert(_truncated(torch.softmax(drawn, -1), int(top_k), top_p, min_p), draws[at])
        tokens[at] = chosen
        log_probs[at] = scaled.gather(-1, chosen[:, None])[:, 0] - torch.logsumexp(scaled, -1)
    return tokens, log_probs


def _penalised(logits: Tensor, penalty: float, seen: Sequence[Tensor]) -> Tensor:
    logits = logits.clone()
    for row, ids in enumerate(seen):
        values = logits[row, ids]
        logits[row, ids] = torch.where(values < 0, values * penalty, values / penalty)
    return logits


def _truncated(probs: Tensor, top_k: int, top_p: float, min_p: float) -> Tensor:
    """Probabilities with what is cut off at 0, not renormalised."""
    if top_k or top_p < 1:
        ordered, order = probs.sort(-1, descending=True)
        if top_k:
            ordered[:, top_k:] = 0
        if top_p < 1:
            before = ordered.cumsum(-1) - ordered
            ordered = ordered.where(before < top_p * ordered.sum(-1, keepdim=True), 0)
        probs = torch.zeros_like(probs).scatter_(-1, order, ordered)
    if min_p:
        probs = probs.where(probs >= min_p * probs.amax(-1, keepdim=True), 0)
    return probs


def _invert(probs: Tensor, draws: Tensor) -> Tensor:
    """The token at which the cumulative probability passes ``draw`` of the total; found by blocks, then inside one.

    Blocks keep the running sums short: exact enough in float32, and a small part of a cumulative sum's time.
    """
    rows, vocabulary = probs.shape
    padded = torch.nn.functional.pad(probs, (0, -vocabulary % _BLOCK)).view(rows, -1, _BLOCK)
    blocks = padded.sum(-1).double().cumsum(-1)
    goal = draws[:, None] * blocks[:, -1:]
    block = torch.searchsorted(blocks, goal, right=True).clamp(max=blocks.shape[1] - 1)
    before = torch.where(block > 0, blocks.gather(1, (block - 1).clamp(min=0)), 0.0)
    inside = padded.gather(1, block[..., None].expand(-1, -1, _BLOCK))[:, 0]
    cumulative = inside.double().cumsum(-1)
    at = torch.searchsorted(cumulative, goal - before, right=True)
    # Rounding may lead past the last token that has any probability: then it is that one.
    last = (inside > 0).long().mul(torch.arange(1, _BLOCK + 1, device=probs.device)).amax(
        -1, keepdim=True
    ) - 1
    return (block * _BLOCK + torch.minimum(at, last.clamp(min=0)))[:, 0]
