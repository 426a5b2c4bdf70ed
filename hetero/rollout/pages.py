"""The paged key-value cache: memory in pages of equal size, shared by sequences with a prefix in common.

After Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention". A page
holds the keys and values of ``size`` consecutive tokens in every layer. Full pages are shared by reference; a
page that is still being filled is copied when a sequence forks.
"""

from __future__ import annotations

from torch import Tensor

from hetero.errors import RolloutError


class PagePool:
    """Pages of all layers, counted by how many sequences hold each.

    Args:
        size: tokens a page.
        limit: at most so many pages; None grows as needed.
    """

    def __init__(self, size: int = 16, limit: int | None = None) -> None:
        if size < 1 or (limit is not None and limit < 1):
            raise RolloutError("a page pool needs pages of at least 1 token, and at least 1 page")
        self.size, self.limit = size, limit
        self._holders: list[int] = []
        self._free: list[int] = []
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def in_use(self) -> int:
        return len(self._holders) - len(self._free)

    def available(self) -> int | None:
        """Pages that can still be taken; None without a limit."""
        return None if self.limit is None else self.limit - self.in_use

    def take(self) -> int:
        """A page held once. Raises RolloutError when the limit is reached."""
        if not self._free:
            self._grow()
        page = self._free.pop()
        self._holders[page] = 1
        return page

    def hold(self, pages: list[int]) -> None:
        for page in pages:
            self._holders[page] += 1

    def release(self, pages: list[int]) -> None:
        for page in pages:
            self._holders[page] -= 1
            if self._holders[page] == 0:
                self._free.append(page)

    def copy(self, page: int) -> int:
        """A new page with the contents of ``page``."""
        new = self.take()
        for keys, values in self._layers.values():
            keys[new] = keys[page]
            values[new] = values[page]
        return new

    def layer(self, index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Memory of one layer, [pages, size, heads, width] each, made on first use for rows [tokens, heads, width]."""
        held = self._layers.get(index)
        pages = len(self._holders)
        if held is None or held[0].shape[0] < pages:
            held = (
                _enlarged(held and held[0], keys, pages, self.size),
                _enlarged(held and held[1], values, pages, self.size),
            )
            self._layers[index] = held
        return held

    def _grow(self) -> None:
        known = len(self._holders)
        more = max(64, known)
        if self.limit is not None:
            more = min(more, self.limit - known)
        if more <= 0:
            raise RolloutError(
                f"all {self.limit} pages of {self.size} tokens are in use; raise max_pages, or lower "
                "max_batch or max_new_tokens"
            )
        self._holders += [0] * more
        self._free += range(known + more - 1, known - 1, -1)


def _enlarged(old: Tensor | None, rows: Tensor, pages: int, size: int) -> Tensor:
    new = rows.new_zeros(pages, size, *rows.shape[1:])
    if old is not None:
        new[: old.shape[0]] = old
    return new
