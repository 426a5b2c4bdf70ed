"""The built-in rollout engine: batched decoding with a paged cache, finished rows replaced at once."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hetero.errors import RolloutError
from hetero.rollout.attention import NAME, Decode, Prefill, paged
from hetero.rollout.pages import PagePool
from hetero.rollout.request import Completion, Request
from hetero.rollout.row import Group, Row
from hetero.rollout.sampling import choose
from hetero.train.model.head import LMHead


class Engine:
    """Samples from a Transformers causal LM (with or without a PEFT adapter) through its own modules.

    Rows of all requests are decoded together, at most ``max_batch`` at a time; a row that ends makes place for
    the next in the same step. The prompt of a request runs once, and its full pages are shared by all its
    completions.

    Args:
        model: on any device; its weights are read in place, so the engine is always up to date.
        tokenizer: for stop strings; also gives the end-of-sequence token.
        eos_token_ids: ids that end a completion; default those of the model's generation config and tokenizer.
        max_batch: rows decoded together.
        max_prefill_tokens: prompt tokens of one pass; a longer prompt has a pass of its own.
        page_size: tokens a page of the cache.
        max_pages: limit of the cache; rows wait until the pages they may need at most are free. None: no limit.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any = None,
        *,
        eos_token_ids: Sequence[int] | None = None,
        max_batch: int = 32,
        max_prefill_tokens: int = 4096,
        page_size: int = 16,
        max_pages: int | None = None,
    ) -> None:
        if max_batch < 1:
            raise RolloutError(f"max_batch is {max_batch}; it must be at least 1")
        self._model, self._tokenizer = model, tokenizer
        self._eos = frozenset(_eos_ids(model, tokenizer) if eos_token_ids is None else eos_token_ids)
        self._max_batch, self._max_prefill = max_batch, max_prefill_tokens
        self._pool = PagePool(page_size, max_pages)
        self._reserved = 0
        #: Counts updates of the weights; completions carry the one they were drawn with. A trainer sets it.
        self.version = 0

    @torch.no_grad()
    def generate(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """The completions of each request, in order. The model's modes are put back afterwards.

        Raises:
            RolloutError: stop strings without a tokenizer, a request that could never fit, logits that are not
                finite.
        """
        groups = [self._admitted(number, request) for number, request in enumerate(requests)]
        waiting, running = deque(groups), list[Row]()
        with _sampling_mode(self._model):
            try:
                while waiting or running:
                    running += self._start(waiting, self._max_batch - len(running))
                    running = self._without_ended(running)
                    if running:
                        self._decode(running)
                        running = self._without_ended(running)
            finally:
                for group in groups:
                    group.give_back(self._pool)
                self._reserved = 0
        return [[row.completion(self.version) for row in group.rows] for group in groups]

    def _admitted(self, number: int, request: Request) -> Group:
        group = Group(request, self._pool.size)
        if request.sampling.stop and self._tokenizer is None:
            raise RolloutError(
                f"request {number} has stop strings, which need a tokenizer: give the engine one"
            )
        most = group.prompt_pages + group.row_pages
        if self._pool.limit is not None and most > self._pool.limit:
            raise RolloutError(
                f"request {number} may need {most} pages of {self._pool.size} tokens, the cache has "
                f"{self._pool.limit}: raise max_pages or lower max_new_tokens"
            )
        return group

    def _start(self, waiting: deque[Group], places: int) -> list[Row]:
        """New rows for the free places, with their first token drawn; prompts that are new run in one pass."""
        chosen: list[tuple[Group, int]] = []
        fresh: list[Group] = []
        tokens = 0
        for group in waiting:
            new = not group.pages
            tokens += len(group.request.prompt_ids) if new else 0
            if not places or (new and fresh and tokens > self._max_prefill):
                break
            count = 0
            for _ in range(min(places, group.request.count - len(group.rows))):
                pages = group.row_pages + (group.prompt_pages if new and not count else 0)
                if self._pool.limit is not None and self._reserved + pages > self._pool.limit:
                    break
                self._reserved += pages
                count += 1
            if not count:
                break
            chosen.append((group, count))
            fresh += [group] if new else []
            places -= count
        if fresh:
            self._prefill(fresh)
        rows, logits = list[Row](), list[Tensor]()
        for group, count in chosen:
            rows += [group.start(self._pool) for _ in range(count)]
            assert group.logits is not None
            logits += [group.logits] * count
            if not group.pending:
                waiting.popleft()
                self._pool.release(group.pages)
                self._reserved -= group.prompt_pages
                group.pages = []
        if rows:
            self._draw(rows, torch.stack(logits))
        return rows

    def _prefill(self, groups: list[Group]) -> None:
        ids, positions, slots, bounds = list[int](), list[int](), list[int](), [0]
        for group in groups:
            prompt = list(group.request.prompt_ids)
            group.pages = [self._pool.take() for _ in range(group.prompt_pages)]
            ids += prompt
            positions += range(len(prompt))
            slots += [
                group.pages[i // self._pool.size] * self._pool.size + i % self._pool.size
                for i in positions[-len(prompt) :]
            ]
            bounds.append(len(ids))
        pass_ = Prefill(self._pool, self._tensor(slots), bounds)
        logits = self._logits(ids, positions, pass_, self._tensor([end - 1 for end in bounds[1:]]))
        for group, row in zip(groups, logits):
            group.logits = row

    def _decode(self, rows: list[Row]) -> None:
        slots = [row.next_slot(self._pool) for row in rows]
        longest = max(len(row.pages) for row in rows)
        table = [row.pages + [0] * (longest - len(row.pages)) for row in rows]
        positions = [row.length for row in rows]
        lengths = self._tensor([length + 1 for length in positions])
        pass_ = Decode(self._pool, self._tensor(slots), self._tensor(table), lengths)
        logits = self._logits([row.ids[-1] for row in rows], positions, pass_, None)
        for row in rows:
            row.length += 1
        self._draw(rows, logits)

    def _logits(
        self, ids: list[int], positions: list[int], pages: Prefill | Decode, at: Tensor | None
    ) -> Tensor:
        """Logits [rows, V] float32 of the tokens ``at``, or of all."""
        head = LMHead.of(self._model)
        output = head.decoder(
            input_ids=self._tensor([ids]),
            position_ids=self._tensor([positions]),
            use_cache=False,
            pages=pages,
        )
        hidden = output.last_hidden_state[0] * head.scale
        bias = head.scaled_bias()
        logits = nn.functional.linear(hidden if at is None else hidden[at], head.weight, bias).float()
        if head.softcap is not None:
            logits = head.softcap * torch.tanh(logits / head.softcap)
        return logits

    def _draw(self, rows: list[Row], logits: Tensor) -> None:
        draws = self._tensor([row.draw() for row in rows], torch.float64)
        seen = [
            self._tensor([*row.request.prompt_ids, *row.ids])
            if row.request.sampling.repetition_penalty != 1
            else logits
            for row in rows
        ]
        tokens, log_probs = choose(logits, [row.request.sampling for row in rows], draws, seen)
        drawn = torch.stack([tokens.double(), log_probs.double()]).tolist()  # one wait for the device
        for row, token, log_prob in zip(rows, *drawn):
            if log_prob != log_prob:
                raise RolloutError(
                    "the model's logits are not finite: its weights have been ruined, or its inputs are wrong"
                )
            row.append(int(token), log_prob, self._eos, self._tokenizer)

    def _without_ended(self, rows: list[Row]) -> list[Row]:
        for row in rows:
            if row.finish_reason:
                row.give_back(self._pool)
                self._reserved -= row.reserved
        return [row for row in rows if not row.finish_reason]

    def _tensor(self, values: Any, dtype: torch.dtype = torch.long) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=next(self._model.parameters()).device)


def _eos_ids(model: Any, tokenizer: Any) -> Iterator[int]:
    for source in (getattr(model, "generation_config", None), tokenizer):
        found = getattr(source, "eos_token_id", None)
        yield from [found] if isinstance(found, int) else found or ()


@contextlib.contextmanager
def _sampling_mode(model: Any) -> Iterator[None]:
    """Evaluation mode and paged attention, for a while."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, paged)
    config: Any = LMHead.of(model).decoder.config
    before, training = config._attn_implementation, [m for m in model.modules() if m.training]
    config._attn_implementation = NAME
    model.eval()
    try:
        yield
    finally:
        config._attn_implementation = before
        for module in training:
            module.training = True
