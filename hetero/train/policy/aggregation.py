"""How the losses of tokens become one number: which tokens share the blame.

With ``m`` the mask, ``n_i`` the tokens of sequence i, B the sequences and N the tokens of the whole window over all
ranks, and C the longest completion that was asked for:

=========  ===============================  =====================================================
grpo       ``sum_i (sum_t m l / n_i) / B``  every sequence counts the same
dapo       ``sum m l / N``                  every token counts the same
dr_grpo    ``sum m l / (B C)``              neither: no bias for length (arXiv 2503.20783)
luspo      ``sum_i (sum_t m l) / B``        a sequence counts by its length
=========  ===============================  =====================================================

A batch returns its share, so that shares add up to the same loss however the window is split over micro-batches and
ranks. (bnpo is dapo with the tokens of one micro-batch for N, so it depends on the split; it is here for parity.)
"""

from __future__ import annotations

from torch import Tensor

#: What the denominator of each counts.
KINDS = {
    "grpo": "sequences",
    "dapo": "tokens",
    "dr_grpo": "sequences",
    "luspo": "sequences",
    "bnpo": "sequences",
}


def total(kind: str, losses: Tensor, mask: Tensor, max_length: int) -> Tensor:
    """The batch's sum, to be divided by the window's sequences or tokens, as :data:`KINDS` says."""
    masked = losses * mask
    if kind == "grpo":
        return (masked.sum(-1) / mask.sum(-1).clamp(min=1)).sum()
    if kind == "dr_grpo":
        return masked.sum() / max_length
    if kind == "bnpo":
        return masked.sum() / mask.sum().clamp(min=1) * masked.shape[0]
    if kind in ("dapo", "luspo"):
        return masked.sum()
    raise ValueError(f"aggregation {kind!r} is not one of {', '.join(KINDS)}")
