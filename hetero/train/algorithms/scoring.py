"""Log-probabilities of the tokens that a loss is about, for every algorithm: SFT, preferences, rollouts.

A batch that can be scored has, beside what the model takes, the flat positions to score and where each score
belongs in a matrix [rows, width]: row i has the scored tokens of sequence i from its left on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hetero import ops
from hetero.train.algorithms.base import Batch
from hetero.train.data.collate import IGNORE, collate
from hetero.train.model.head import LMHead


def scorable(sequences: Sequence[Mapping[str, Any]], pad_token_id: int) -> Batch:
    """Pad sequences {"input_ids", "labels"} and say where their labelled tokens are.

    Adds to what :func:`~hetero.train.data.collate.collate` gives, for N labelled tokens:

    * ``source`` [N]: positions in the flattened [rows * length] hidden states, ``target`` [N]: the tokens that are
      predicted from there (position ``t`` predicts the label of ``t + 1``)
    * ``place`` [N]: where in the flattened matrix the score belongs; ``mask`` bool [rows, width]: which are filled
    * ``num_tokens``: input tokens without padding
    """
    batch = collate(sequences, pad_token_id=pad_token_id)
    labels = batch.pop("labels")
    ahead = torch.full_like(labels, IGNORE)
    ahead[:, :-1] = labels[:, 1:]
    scored = ahead != IGNORE
    counts = scored.sum(1)
    width = int(counts.max())
    mask = torch.arange(width) < counts[:, None]
    source = scored.flatten().nonzero().squeeze(1)
    return batch | {
        "source": source,
        "target": ahead.flatten()[source],
        "place": mask.flatten().nonzero().squeeze(1),
        "mask": mask,
        "num_tokens": sum(len(sequence["input_ids"]) for sequence in sequences),
    }


@dataclass(frozen=True)
class Scores:
    """Of each scored token, float32 [rows, width], 0 where ``mask`` is not set; both carry gradients.

    ``tie`` is 0 and depends on every parameter: add it to a loss that may have no token in it.
    """

    log_p: Tensor
    entropy: Tensor
    mask: Tensor
    tie: Tensor

    def sums(self) -> Tensor:
        """Log-probability of each sequence: [rows]."""
        return self.log_p.sum(1)


def score(model: nn.Module, batch: Batch, *, temperature: float = 1.0) -> Scores:
    """Log-probabilities and entropies under ``model``, without ever holding the logits."""
    head = LMHead.of(model)
    hidden = head.hidden(batch).flatten(0, 1)
    tie = (hidden[:1].sum() + head.weight[:1].sum()).float() * 0.0
    log_p, entropy = ops.linear_log_prob(
        hidden.index_select(0, batch["source"]),
        head.weight,
        batch["target"],
        head.scaled_bias(),
        temperature=temperature,
        softcap=head.softcap,
    )
    mask, place = batch["mask"], batch["place"]
    # Every place is written once, so that the result does not depend on the order of threads.
    log_p, entropy = (
        part.new_zeros(mask.numel()).index_copy(0, place, part).view(mask.shape) for part in (log_p, entropy)
    )
    return Scores(log_p, entropy, mask, tie)
