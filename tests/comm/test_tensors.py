from __future__ import annotations

import pytest
import torch

from hetero.comm import CommError, tensors

CPU = torch.device("cpu")


def test_dense_shares_memory_where_it_can_and_copies_where_it_must() -> None:
    t = torch.arange(6.0).view(2, 3)
    assert tensors.dense(t).data_ptr() == t.data_ptr()
    flat = tensors.dense(t.T)
    assert flat.data_ptr() != t.data_ptr() and flat.tolist() == [0, 3, 1, 4, 2, 5]
    tensors.write_back(t.T, flat * 10)
    assert t.tolist() == [[0, 10, 20], [30, 40, 50]]
    assert tensors.dense(torch.tensor([1 + 2j]).conj()).tolist() == [1 - 2j]
    assert tensors.as_bytes(tensors.dense(torch.tensor([True, False]))).tolist() == [1, 0]


def test_complex_reduces_as_pairs() -> None:
    z = torch.tensor([1 + 2j])
    assert tensors.as_numbers(z, "sum").tolist() == [1, 2]
    with pytest.raises(CommError, match="product of complex"):
        tensors.as_numbers(z, "product")


def test_splits() -> None:
    assert tensors.check_splits(None, "in_splits", 3, 6) == [2, 2, 2]
    assert tensors.check_splits((0, 5), "in_splits", 2, 5) == [0, 5]
    for splits in ([5], [6, -1], [1, 1]):
        with pytest.raises(CommError, match=r"in_splits=.* must be 2 counts that sum to 5 rows"):
            tensors.check_splits(splits, "in_splits", 2, 5)
    with pytest.raises(CommError, match="5 rows do not divide by 2 ranks: give in_splits"):
        tensors.check_splits(None, "in_splits", 2, 5)


def test_a_tensor_elsewhere_is_refused_by_name() -> None:
    with pytest.raises(CommError, match="out is on meta, this communicator's device is cpu"):
        tensors.check(torch.ones(1, device="meta"), "out", CPU)
    with pytest.raises(CommError, match=r"inputs\[1\] must be a tensor, got float"):
        tensors.check_list([torch.ones(1), 1.0], "inputs", 2, CPU)
    with pytest.raises(CommError, match=r"inputs mixes dtypes \(torch.float32, torch.float64\)"):
        tensors.check_list([torch.ones(1), torch.ones(1).double()], "inputs", 2, CPU)
