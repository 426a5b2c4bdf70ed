"""Canonical examples to token ids and labels: what is trained on is decided here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Any

from hetero.errors import DataError
from hetero.train.data.collate import IGNORE
from hetero.train.data.formats import Chat, Plain, Tokens
from hetero.train.data.template import ChatTemplate, Span, common_prefix

Encoded = tuple[list[int], list[int]]


class Encoder:
    """Encodes one example at a time to (input_ids, labels), both of the same length, labels unshifted.

    Rules, those of TRL's SFT trainer:

    * Conversations: text by the chat template, no end token added. Trained on whole, or on assistant
      turns with `assistant_only_loss`.
    * Prompt and completion: tokenised as one text; the completion begins where the ids stop agreeing with
      those of the prompt alone. Tokenising the two apart would give ids that the model never meets where
      they join. Trained on the completion unless `completion_only_loss` is False.
    * Text that is no conversation ends with one end token.

    Args:
        tokenizer: a Transformers tokenizer.
        template: its chat template.
        completion_only_loss, assistant_only_loss: as in the recipe.
        max_length: longer examples lose their end; None for no limit.

    Attributes:
        notes: how often something happened that deserves a warning.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: ChatTemplate,
        *,
        completion_only_loss: bool | None = None,
        assistant_only_loss: bool = False,
        max_length: int | None = None,
    ) -> None:
        self.tokenizer, self.template = tokenizer, template
        self.completion_only, self.assistant_only = completion_only_loss, assistant_only_loss
        self.max_length = max_length
        self.notes: Counter[str] = Counter()
        self._stops = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._stops.add(tokenizer.eos_token_id)

    def encode(self, example: Chat | Plain | Tokens) -> tuple[list[int], list[int], bool]:
        """(input_ids, labels, truncated). Labels may be all -100; the caller drops such examples.

        Raises:
            DataError: the loss that is asked for does not exist for this kind of row.
        """
        if isinstance(example, Chat):
            ids, labels = self._chat(example)
        elif isinstance(example, Plain):
            ids, labels = self._plain(example)
        else:
            ids, labels = self._tokens(example)
        if self.max_length is None or len(ids) <= self.max_length:
            return ids, labels, False
        return ids[: self.max_length], labels[: self.max_length], True

    def _chat(self, chat: Chat) -> Encoded:
        if self.completion_only and chat.prompt_turns is None:
            raise DataError(
                "completion_only_loss needs rows of prompt and completion, these are messages; "
                "use assistant_only_loss"
            )
        spans: list[Span] | None = None
        prompt = None
        if self.assistant_only:
            text, spans = self.template.text_and_spans(chat)
        if chat.prompt_turns is not None and self.completion_only is not False:
            prompt, text = self.template.prompt_and_text(chat)
        elif spans is None:
            text = self.template.text(chat)
        ids, ranges = self._template_ids(text, spans)
        start = 0 if prompt is None else self._common(self._ids(prompt), ids)
        if spans is None:
            labels = [IGNORE] * start + ids[start:]
            trained = prompt is not None
            self.notes["no_stop"] += trained and not self._stops.intersection(ids[start:])
            return ids, labels
        labels = [IGNORE] * len(ids)
        for first, last in ranges:
            labels[max(first, start) : last] = ids[max(first, start) : last]
        self.notes["no_stop"] += any(not self._stops.intersection(ids[first:last]) for first, last in ranges)
        return ids, labels

    def _plain(self, example: Plain) -> Encoded:
        if self.assistant_only:
            raise DataError("assistant_only_loss needs conversations, these rows are text")
        if self.completion_only and example.prompt is None:
            raise DataError("completion_only_loss needs rows of prompt and completion, these are text")
        ids = self._text_ids(example.text)
        if ids[-1:] != [self.tokenizer.eos_token_id]:
            ids.append(self.tokenizer.eos_token_id)
        if example.prompt is None or self.completion_only is False:
            return ids, list(ids)
        start = self._common(self._text_ids(example.prompt), ids)
        return ids, [IGNORE] * start + ids[start:]

    def _tokens(self, example: Tokens) -> Encoded:
        if example.labels is None and (self.assistant_only or self.completion_only):
            raise DataError(
                "assistant_only_loss and completion_only_loss need labels or a mask beside input_ids"
            )
        bad = [id for id in example.input_ids if not 0 <= id < len(self.tokenizer)]
        if bad:
            raise DataError(
                f"input_ids has {bad[0]}, but the tokenizer's ids end at {len(self.tokenizer) - 1}"
            )
        return list(example.input_ids), list(example.labels or example.input_ids)

    def _common(self, prompt: list[int], ids: list[int]) -> int:
        """Length of the common beginning: shorter than the prompt where tokens merge across the border."""
        same = common_prefix(prompt, ids)
        self.notes["merged"] += same < len(prompt)
        return same

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    def _text_ids(self, text: str) -> list[int]:
        """Ids of text that no template wrote, with the special tokens that the tokenizer adds, once."""
        ids = list(self.tokenizer(text, verbose=False)["input_ids"])
        bos, eos = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        if bos is not None and ids[:2] == [bos, bos]:
            del ids[0]
        if ids[-2:] == [eos, eos]:
            del ids[-1]
        return ids

    def _template_ids(self, text: str, spans: list[Span] | None) -> tuple[list[int], list[Span]]:
        """Ids of templated text, and the token range of each character range."""
        if spans is None:
            return self._ids(text), []
        if not self.tokenizer.is_fast:
            ids = self._ids(text)
            cut = [[self._common(self._ids(text[:end]), ids) for end in span] for span in spans]
            return ids, [(first, last) for first, last in cut]
        out = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        starts = [start for start, _ in out["offset_mapping"]]
        ends = [end for _, end in out["offset_mapping"]]
        return out["input_ids"], [(bisect_right(ends, a), bisect_left(starts, b)) for a, b in spans if b > a]
