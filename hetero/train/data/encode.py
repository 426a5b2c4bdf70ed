"""Canonical examples to token ids and labels: what is trained on is decided here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hetero.errors import DataError
from hetero.train.data.collate import IGNORE
from hetero.train.data.formats import Chat, Plain, Tokens
from hetero.train.data.template import ChatTemplate, Rendering, Span, common_prefix


@dataclass
class Encoded:
    """One example. `labels` are unshifted and may be all -100: the caller drops such examples."""

    input_ids: list[int]
    labels: list[int]
    truncated: bool = False

    @property
    def trained(self) -> int:
        """Tokens that are trained on: the first of all is predicted from nothing and does not count."""
        return sum(label != IGNORE for label in self.labels[1:])


class Encoder:
    """Encodes examples to ids and labels.

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

    def encode(self, examples: Sequence[Chat | Plain | Tokens]) -> list[Encoded | DataError]:
        """Encode examples, many in one call: rendering and tokenising have a cost for each call.

        Returns:
            One result for each example, up to and with the first error: the loss that is asked for does not
            exist for this kind of row, or the chat template refuses it.
        """
        results: list[Encoded | DataError] = []
        chats = [example for example in examples if isinstance(example, Chat)]
        renderings = iter(self._render(chats) if chats and not self._unfit(chats[0]) else [])
        for example in examples:
            done = self._unfit(example) or self._one(example, renderings)
            results.append(done)
            if isinstance(done, DataError):
                break
            if self.max_length is not None and len(done.input_ids) > self.max_length:
                del done.input_ids[self.max_length :], done.labels[self.max_length :]
                done.truncated = True
        return results

    def _one(
        self, example: Chat | Plain | Tokens, renderings: Iterator[Rendering | DataError]
    ) -> Encoded | DataError:
        if isinstance(example, Chat):
            rendering = next(renderings)
            return rendering if isinstance(rendering, DataError) else self._chat(rendering)
        if isinstance(example, Plain):
            return self._plain(example)
        return Encoded(list(example.input_ids), list(example.labels or example.input_ids))

    def _unfit(self, example: Chat | Plain | Tokens) -> DataError | None:
        """What speaks against training on such a row with the loss that the recipe asks for."""
        if isinstance(example, Tokens):
            if example.labels is None and (self.assistant_only or self.completion_only):
                return DataError(
                    "assistant_only_loss and completion_only_loss need labels or a mask beside input_ids"
                )
            size = len(self.tokenizer)
            if bad := [id for id in example.input_ids if not 0 <= id < size]:
                return DataError(f"input_ids has {bad[0]}, but the tokenizer's ids end at {size - 1}")
            if bad := [id for id in example.labels or () if not 0 <= id < size and id != IGNORE]:
                return DataError(f"labels has {bad[0]}, which is neither a token's id nor {IGNORE}")
            return None
        if isinstance(example, Plain) and self.assistant_only:
            return DataError("assistant_only_loss needs conversations, these rows are text")
        prompt = example.prompt if isinstance(example, Plain) else example.prompt_turns
        if self.completion_only and prompt is None:
            hint = "" if isinstance(example, Plain) else "; use assistant_only_loss for messages"
            return DataError(f"completion_only_loss needs rows of prompt and completion{hint}")
        return None

    def _render(self, chats: list[Chat]) -> list[Rendering | DataError]:
        prompts = self.completion_only is not False
        return self.template.render(chats, spans=self.assistant_only, prompts=prompts)

    def _chat(self, rendering: Rendering) -> Encoded:
        ids, ranges = self._template_ids(rendering.text, rendering.spans)
        start = 0 if rendering.prompt is None else self._common(self.ids(rendering.prompt), ids)
        if rendering.spans is None:
            if rendering.prompt is not None:
                self.notes["no_stop"] += not self._stops.intersection(ids[start:])
            return Encoded(ids, [IGNORE] * start + ids[start:])
        labels = [IGNORE] * len(ids)
        for first, last in ranges:
            labels[max(first, start) : last] = ids[max(first, start) : last]
        self.notes["no_stop"] += any(not self._stops.intersection(ids[first:last]) for first, last in ranges)
        return Encoded(ids, labels)

    def _plain(self, example: Plain) -> Encoded:
        ids = self.text_ids(example.text)
        if ids[-1:] != [self.tokenizer.eos_token_id]:
            ids.append(self.tokenizer.eos_token_id)
        if example.prompt is None or self.completion_only is False:
            return Encoded(ids, list(ids))
        start = self._common(self.text_ids(example.prompt), ids)
        return Encoded(ids, [IGNORE] * start + ids[start:])

    def _common(self, prompt: list[int], ids: list[int]) -> int:
        """Length of the common beginning: shorter than the prompt where tokens merge across the border."""
        same = common_prefix(prompt, ids)
        self.notes["merged"] += same < len(prompt)
        return same

    def ids(self, text: str) -> list[int]:
        """Ids of text that a template wrote: no special tokens are added."""
        return self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    def text_ids(self, text: str) -> list[int]:
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
            return self.ids(text), []
        if not self.tokenizer.is_fast:
            ids = self.ids(text)
            cut = [[self._common(self.ids(text[:end]), ids) for end in span] for span in spans]
            return ids, [(first, last) for first, last in cut]
        out = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        starts = [start for start, _ in out["offset_mapping"]]
        ends = [end for _, end in out["offset_mapping"]]
        return out["input_ids"], [(bisect_right(ends, a), bisect_left(starts, b)) for a, b in spans if b > a]
