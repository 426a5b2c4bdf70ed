"""Examples to one batch of tensors: right padding, and packed rows that keep their documents apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

IGNORE = -100


def collate(examples: Sequence[Mapping[str, Any]], pad_token_id: int) -> dict[str, Tensor]:
    """Pad `examples` on the right and stack them.

    Masks come from lengths, never from comparing ids with `pad_token_id`, so that padding with the end
    token is safe. Packed examples are those with "seq_lengths": their positions restart at 0 with each
    document, the first label of each document is -100 (it would be predicted from the document before),
    and there is no attention_mask, because Transformers keeps documents apart only without one (and with
    `use_cache=False`).

    Args:
        examples: dicts of "input_ids" and "labels" (unshifted), lists of equal length; all packed or none. An
            empty sequence gives a batch that trains on nothing: a rank without rows still has to join its
            peers.
        pad_token_id: any valid id.

    Returns:
        int64 tensors of shape (rows, longest): input_ids, labels, position_ids, and unless packed
        attention_mask.
    """
    if not examples:
        examples = [{"input_ids": [pad_token_id] * 2, "labels": [IGNORE] * 2}]
    rows, width = len(examples), max(len(example["input_ids"]) for example in examples)
    packed = "seq_lengths" in examples[0]
    batch = {
        "input_ids": torch.full((rows, width), pad_token_id),
        "labels": torch.full((rows, width), IGNORE),
        "position_ids": torch.arange(width).repeat(rows, 1),
    }
    lengths = []
    for row, example in enumerate(examples):
        size = len(example["input_ids"])
        lengths.append(size)
        batch["input_ids"][row, :size] = torch.as_tensor(example["input_ids"])
        batch["labels"][row, :size] = torch.as_tensor(example["labels"])
        if packed:
            # Padding at the end is one more document of its own.
            documents = torch.tensor([*example["seq_lengths"], width - size])
            starts = documents.cumsum(0) - documents
            batch["position_ids"][row] -= starts.repeat_interleave(documents)
            batch["labels"][row, starts[:-1]] = IGNORE
    if not packed:
        batch["attention_mask"] = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    return batch


def count_label_tokens(batch: Mapping[str, Tensor]) -> int:
    """Tokens that the loss of `batch` sums over: labels after the shift by one that are not -100."""
    return int((batch["labels"][:, 1:] != IGNORE).sum())
