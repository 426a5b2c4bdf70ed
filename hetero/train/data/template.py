"""Conversations to text, and which part of the text the assistant wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hetero.errors import DataError
from hetero.train.data.formats import Chat
from hetero.train.data.renderer import Renderer

Span = tuple[int, int]

_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")


def common_prefix(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Length of the longest common beginning."""
    differ = (i for i, (a, b) in enumerate(zip(first, second)) if a != b)
    return next(differ, min(len(first), len(second)))


class ChatTemplate:
    """A tokenizer's chat template. Use as a context manager: it holds a process.

    The text is meant to be tokenised with `add_special_tokens=False`: the template writes the special
    tokens, and a tokenizer that adds its own would put the first one twice.
    """

    def __init__(self, tokenizer: Any, variables: dict[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self.variables = variables or {}
        self._renderers: dict[str, Renderer] = {}
        special = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        self._special = tuple(sorted(special | set(tokenizer.all_special_tokens), key=len, reverse=True))

    def __enter__(self) -> ChatTemplate:
        return self

    def __exit__(self, *_: object) -> None:
        for renderer in self._renderers.values():
            renderer.close()

    def text(self, chat: Chat) -> str:
        """The whole conversation."""
        return self._render(chat, [(len(chat.messages), False)])[0][0]

    def prompt_and_text(self, chat: Chat) -> tuple[str, str]:
        """(prompt with the generation prompt, whole conversation). `chat.prompt_turns` must be set."""
        turns = chat.prompt_turns or 0
        ask = chat.messages[turns - 1]["role"] != "assistant"  # a prompt may end with the answer's beginning
        (prompt, _), (text, _) = self._render(chat, [(turns, ask), (len(chat.messages), False)])
        return prompt, text

    def text_and_spans(self, chat: Chat) -> tuple[str, list[Span]]:
        """The conversation and the character ranges that the assistant wrote, its stop token included.

        The ranges are those of `{% generation %}` where the template has it. Otherwise they are derived:
        turn i begins where the rendering of the turns before it, with the generation prompt, ends. What
        the generation prompt supplies (an empty think block, say) is not trained on, for the model never
        has to write it.

        Raises:
            DataError: the ranges cannot be told, because the template renders a turn differently when
                more follow.
        """
        turns = len(chat.messages)
        assistant = [i for i, message in enumerate(chat.messages) if message["role"] == "assistant"]
        if _GENERATION.search(self._source(chat)):
            text, spans = self._render(chat, [(turns, False)])[0]
            if assistant and not any(end > start for start, end in spans):
                raise DataError(
                    "the chat template has {% generation %} but marks nothing of this conversation"
                )
            return text, spans
        wanted = [(turns, False)]
        for i in assistant:
            wanted += [(i, True), (i, False), (i + 1, False)] if i else [(1, False)]
        rendered = iter(text for text, _ in self._render(chat, wanted))
        text = next(rendered)
        spans = []
        for i in assistant:
            asked, before = (next(rendered), next(rendered)) if i else ("", "")
            spans.append(self._derive(text, asked, before, next(rendered), chat.messages[i]["content"]))
        return text, spans

    def _derive(self, text: str, asked: str, before: str, after: str, content: str) -> Span:
        """Where one assistant turn lies in `text`.

        Args:
            text: the whole conversation.
            asked, before: the turns before this one, with and without the generation prompt.
            after: the turns up to and with this one.
            content: what the assistant says in it.
        """
        start = common_prefix(asked, text)
        content = content.strip()
        if not asked:  # the conversation begins with the assistant
            start = max(text.find(content), 0)
        elif start < len(before.rstrip()):
            raise DataError(_AMBIGUOUS)
        if text.startswith(after):
            end = len(after)
        elif content and (found := text.find(content, start)) >= 0:
            end = found + len(content)
        else:
            raise DataError(_AMBIGUOUS)
        end = start + len(text[start:end].rstrip())
        rest = text[end:].lstrip()
        if not text[:end].endswith(self._special):
            for token in self._special:
                if rest.startswith(token):
                    end = len(text) - len(rest) + len(token)
                    break
        return start, end

    def _source(self, chat: Chat) -> str:
        if not self.tokenizer.chat_template:
            raise DataError(
                "the rows are conversations, but the tokenizer has no chat template; "
                "name one with chat_template_path"
            )
        return self.tokenizer.get_chat_template(tools=chat.tools)

    def _render(self, chat: Chat, renders: list[tuple[int, bool]]) -> list[tuple[str, list[Span]]]:
        source = self._source(chat)
        renderer = self._renderers.setdefault(source, Renderer(source))
        variables = {
            **self.tokenizer.special_tokens_map,
            "tools": chat.tools,
            "documents": None,
            **self.variables,
            **chat.template_kwargs,
        }
        return renderer.render(chat.messages, variables, renders)


_AMBIGUOUS = (
    "which tokens the assistant wrote cannot be told: the chat template renders a turn differently when "
    "more turns follow. Give a template that marks them with {% generation %} … {% endgeneration %} "
    "(chat_template_path)"
)
