"""The last linear layer joined to a loss, one chunk of tokens at a time.

A chunk's logits fill one buffer that is used again for every chunk; the row kernel may overwrite them with their
gradient, which goes straight into the next matrix products. Rows whose label is ignored are left out from the
start: they cost nothing.

Products are float32. bfloat16 weights are widened a tile at a time, unless this CPU multiplies bfloat16 natively:
then the products, and so the logits, are bfloat16, as those of an ordinary linear layer would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import torch
from torch import Tensor

from hetero.backends.cpu import isa
from hetero.backends.cpu.views import none

#: Bytes of one chunk of float32 logits, and the fewest tokens that keep a matrix product efficient.
CHUNK_BYTES = 48 << 20
CHUNK_ROWS = 64
#: Bytes of one widened tile of a bfloat16 weight.
TILE_BYTES = 8 << 20


@cache
def native_bf16() -> bool:
    """Whether matrix products in bfloat16 run on units made for them."""
    units = isa.flags(isa.cpuinfo()) & {"avx512_bf16", "amx_bf16", "bf16"}
    return bool(units) and torch.backends.mkldnn.is_available()


def chunk_rows(rows: int, vocab: int) -> int:
    """Tokens in one chunk: about ``CHUNK_BYTES`` of logits, a multiple of 32."""
    fitting = CHUNK_BYTES // (4 * max(vocab, 1)) // 32 * 32
    return max(1, min(rows, max(fitting, CHUNK_ROWS)))


class Kept:
    """The rows that count, and how results go back to all rows."""

    def __init__(self, labels: Tensor, ignore_index: int) -> None:
        kept = labels != ignore_index
        self.total = labels.numel()
        self.count = int(kept.sum())
        self._index = None if self.count == self.total else kept.nonzero()[:, 0]

    def take(self, t: Tensor) -> Tensor:
        """The rows of ``t`` that count, contiguous."""
        return t.contiguous() if self._index is None else t.index_select(0, self._index)

    def put(self, t: Tensor) -> Tensor:
        """``t`` with zeros in the rows that do not count."""
        if self._index is None:
            return t
        return t.new_zeros((self.total, *t.shape[1:])).index_copy_(0, self._index, t)


class Head:
    """Logits of chunks of ``hidden`` (rows that count only), and the gradients that follow from theirs."""

    def __init__(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, need_hidden: bool, need_weight: bool
    ) -> None:
        self.weight, self.bias, self.storage = weight, bias, hidden.dtype
        wide = hidden.dtype == torch.float32 or not native_bf16()
        self.dtype = torch.float32 if wide else hidden.dtype
        self.hidden = hidden.to(self.dtype)
        self.size = chunk_rows(hidden.shape[0], weight.shape[0])
        self._logits = torch.empty(self.size, weight.shape[0], dtype=self.dtype)
        self._tile = torch.empty(0)
        self.d_hidden = torch.empty_like(self.hidden) if need_hidden else None
        self.d_weight = torch.empty(weight.shape) if need_weight else None
        self.d_bias = torch.zeros(bias.shape) if need_weight and bias is not None else None

    def chunks(self) -> Iterator[slice]:
        """The rows, a chunk at a time."""
        for start in range(0, self.hidden.shape[0], self.size):
            yield slice(start, min(start + self.size, self.hidden.shape[0]))

    def _tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """The weight in the dtype of the products: whole, or widened a tile at a time."""
        vocab, width = self.weight.shape
        if self.weight.dtype == self.dtype:
            yield slice(0, vocab), self.weight
            return
        step = max(1, TILE_BYTES // (4 * max(width, 1)))
        if not self._tile.numel():
            self._tile = torch.empty(min(step, vocab), width)
        for start in range(0, vocab, step):
            part = slice(start, min(start + step, vocab))
            yield part, self._tile[: part.stop - start].copy_(self.weight[part])

    def logits(self, part: slice) -> Tensor:
        """Logits of the rows ``part``; valid, and free to be overwritten, until the next call."""
        hidden, logits = self.hidden[part], self._logits[: part.stop - part.start]
        for columns, weight in self._tiles():
            if self.bias is None:
                torch.mm(hidden, weight.t(), out=logits[:, columns])
            else:
                torch.addmm(self.bias[columns].to(self.dtype), hidden, weight.t(), out=logits[:, columns])
        return logits

    def add_gradients(self, part: slice, d_logits: Tensor) -> None:
        """Account for the rows ``part``, whose logits have the gradient ``d_logits``."""
        hidden = self.hidden[part]
        if self.d_hidden is not None:
            d_hidden = self.d_hidden[part]
            for columns, weight in self._tiles():
                torch.addmm(
                    d_hidden, d_logits[:, columns], weight, beta=1 if columns.start else 0, out=d_hidden
                )
        if self.d_weight is not None:
            self._add_weight_gradient(d_logits, hidden, first=part.start == 0)
        if self.d_bias is not None:
            self.d_bias += d_logits.sum(0, dtype=torch.float32)

    def _add_weight_gradient(self, d_logits: Tensor, hidden: Tensor, first: bool) -> None:
        assert self.d_weight is not None
        if self.dtype == torch.float32:
            torch.addmm(self.d_weight, d_logits.t(), hidden, beta=0 if first else 1, out=self.d_weight)
        elif first:
            self.d_weight.copy_(d_logits.t() @ hidden)
        else:
            self.d_weight += d_logits.t() @ hidden

    def gradients(self, kept: Kept) -> tuple[Tensor, Tensor, Tensor]:
        """``(d_hidden, d_weight, d_bias)`` in storage dtypes; empty tensors for what was not asked for."""
        if not self.hidden.shape[0] and self.d_weight is not None:
            self.d_weight.zero_()
        return (
            none(self.weight) if self.d_hidden is None else kept.put(self.d_hidden.to(self.storage)),
            none(self.weight) if self.d_weight is None else self.d_weight.to(self.weight.dtype),
            none(self.weight)
            if self.d_bias is None or self.bias is None
            else self.d_bias.to(self.bias.dtype),
        )


def each_chunk(head: Head, row_kernel: Callable[[slice, Tensor], None], with_gradients: bool) -> None:
    """Run ``row_kernel(rows, logits)`` on every chunk; with gradients it leaves them in place of the logits."""
    for part in head.chunks():
        logits = head.logits(part)
        row_kernel(part, logits)
        if with_gradients:
            head.add_gradients(part, logits)
