"""The state of requests on their way: a group for a prompt, a row for each of its completions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hetero.rollout.pages import PagePool
from hetero.rollout.request import Completion, Request

#: Keeps the random streams of neighbouring seeds apart.
_STRIDE = 1_000_003


class Group:
    """A request: its prompt's pages and logits once it has run, and its rows in the order they were started."""

    def __init__(self, request: Request, page_size: int) -> None:
        self.request = request
        self.rows: list[Row] = []
        self.pages: list[int] = []
        self.logits: Tensor | None = None
        tokens = len(request.prompt_ids)
        self.prompt_pages = -(-tokens // page_size)
        self.row_pages = -(-(tokens + request.sampling.max_new_tokens) // page_size)
        seed = request.sampling.seed
        self._seed = int(torch.randint(2**40, ())) if seed is None else seed

    @property
    def pending(self) -> bool:
        return len(self.rows) < self.request.count

    def give_back(self, pool: PagePool) -> None:
        """Release every page that the prompt or a row still holds."""
        pool.release(self.pages)
        self.pages = []
        for row in self.rows:
            row.give_back(pool)

    def start(self, pool: PagePool) -> Row:
        """The next row: it shares the prompt's full pages and has a copy of the one still being filled."""
        generator = torch.Generator().manual_seed((self._seed * _STRIDE + len(self.rows)) % 2**63)
        tokens = len(self.request.prompt_ids)
        full = tokens // pool.size
        pool.hold(self.pages[:full])
        pages = self.pages[:full] + [pool.copy(page) for page in self.pages[full:]]
        row = Row(self.request, pages, tokens, self.row_pages, generator)
        self.rows.append(row)
        return row


class Row:
    """One completion as it grows. ``length`` tokens are in the cache; the last drawn one is not yet.

    ``reserved`` pages are set aside for it, as many as it may need.
    """

    def __init__(
        self, request: Request, pages: list[int], length: int, reserved: int, generator: torch.Generator
    ) -> None:
        self.request, self.pages, self.length, self.reserved = request, pages, length, reserved
        self.ids: list[int] = []
        self.log_probs: list[float] = []
        self.finish_reason = ""
        self._generator = generator

    def draw(self) -> float:
        return float(torch.rand((), generator=self._generator, dtype=torch.float64))

    def give_back(self, pool: PagePool) -> None:
        pool.release(self.pages)
        self.pages = []

    def next_slot(self, pool: PagePool) -> int:
        """Where the next token's key and value go; takes a page when the last is full."""
        if self.length == len(self.pages) * pool.size:
            self.pages.append(pool.take())
        page, place = divmod(self.length, pool.size)
        return self.pages[page] * pool.size + place

    def append(self, token: int, log_prob: float, eos: frozenset[int], tokenizer: Any) -> None:
        """Take a drawn token and see whether it ends the row."""
        self.ids.append(token)
        self.log_probs.append(log_prob)
        sampling = self.request.sampling
        if token in eos or (sampling.stop and self._stopped(tokenizer)):
            self.finish_reason = "stop"
        elif len(self.ids) == sampling.max_new_tokens:
            self.finish_reason = "length"

    def _stopped(self, tokenizer: Any) -> bool:
        stop = self.request.sampling.stop
        # A token is at least a byte: so many last tokens hold every stop string that the newest one may end.
        last = self.ids[-(max(len(text.encode()) for text in stop) + 1) :]
        return any(text in tokenizer.decode(last) for text in stop)

    def completion(self, version: int) -> Completion:
        return Completion(self.ids, self.log_probs, self.finish_reason, version)
