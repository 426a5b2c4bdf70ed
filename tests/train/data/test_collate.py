"""Batches: padding by length, packed rows without leaks."""

import pytest
import torch

from hetero.train.data.collate import IGNORE, collate, count_label_tokens


def example(*ids, start=0):
    return {"input_ids": list(ids), "labels": [IGNORE] * start + list(ids[start:])}


def test_padding_on_the_right_even_when_pad_is_a_real_token():
    batch = collate([example(5, 6, 2), example(7, 2, 8, 9, 2, start=2)], pad_token_id=2)
    assert batch["input_ids"].tolist() == [[5, 6, 2, 2, 2], [7, 2, 8, 9, 2]]
    assert batch["labels"].tolist() == [[5, 6, 2, IGNORE, IGNORE], [IGNORE, IGNORE, 8, 9, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 4]] * 2
    assert count_label_tokens(batch) == 2 + 3
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())


def test_packed_rows():
    rows = [example(1, 2, 3, 4, 5) | {"seq_lengths": [2, 3]}, example(6, 7, 8) | {"seq_lengths": [3]}]
    batch = collate(rows, pad_token_id=0)
    assert "attention_mask" not in batch
    assert batch["position_ids"].tolist() == [[0, 1, 0, 1, 2], [0, 1, 2, 0, 1]]
    assert batch["labels"].tolist() == [[IGNORE, 2, IGNORE, 4, 5], [IGNORE, 7, 8, IGNORE, IGNORE]]
    assert count_label_tokens(batch) == 5


def test_no_rows_make_a_batch_that_trains_on_nothing():
    batch = collate([], pad_token_id=3)
    assert count_label_tokens(batch) == 0 and batch["input_ids"].shape == (1, 2)
    assert batch["attention_mask"].all()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_documents_do_not_see_each_other(attention):
    """Log-probabilities in a packed batch of two rows are those of its documents alone."""
    from hetero.train.model.tiny import tiny_model, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer).eval()
    model.set_attn_implementation(attention)
    generator = torch.Generator().manual_seed(0)
    documents = [torch.randint(3, 500, (n,), generator=generator).tolist() for n in (17, 9, 23, 5)]

    def log_probs(batch):
        inputs = {key: value for key, value in batch.items() if key != "labels"}
        with torch.no_grad():
            logits = model(use_cache=False, **inputs).logits.log_softmax(-1)
        keep = batch["labels"][:, 1:] != IGNORE
        return logits[:, :-1].gather(-1, batch["input_ids"][:, 1:, None])[..., 0][keep]

    alone = torch.cat([log_probs(collate([example(*document)], 0)) for document in documents])
    rows = [
        example(*documents[0], *documents[1]) | {"seq_lengths": [17, 9]},
        example(*documents[2], *documents[3]) | {"seq_lengths": [23, 5]},
    ]
    packed = log_probs(collate(rows, 0))
    torch.testing.assert_close(packed, alone, atol=2e-5, rtol=1e-5)
