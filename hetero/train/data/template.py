"""Conversations to text, and which part of the text the assistant wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hetero.errors import DataError
from hetero.train.data.formats import Chat
from hetero.train.data.renderer import Job, Rendered, Renderer

Span = tuple[int, int]

_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")


def common_prefix(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Length of the longest common beginning."""
    if second[: len(first)] == first:
        return len(first)
    differ = (i for i, (a, b) in enumerate(zip(first, second)) if a != b)
    return next(differ, min(len(first), len(second)))


@dataclass
class Rendering:
    """A conversation as text; `prompt` with the generation prompt; `spans` as (start, end) characters."""

    text: str
    prompt: str | None = None
    spans: list[Span] | None = None


class ChatTemplate:
    """A tokenizer's chat template. Use as a context manager: it holds a process.

    The text is meant to be tokenised with `add_special_tokens=False`: the template writes the special
    tokens, and a tokenizer that adds its own would put the first one twice.

    What the assistant wrote, its stop token included, is what `{% generation %}` marks where the template has
    it. Otherwise it is derived: turn i begins where the rendering of the turns before it, with the generation
    prompt, ends. What the generation prompt supplies (an empty think block, say) is not trained on, for the
    model never has to write it. Where the template renders a turn differently when more follow, so that this
    cannot be told, the rendering is an error.
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

    def render(self, chats: Sequence[Chat], *, spans: bool, prompts: bool) -> list[Rendering | DataError]:
        """Render conversations.

        Args:
            chats: of any length.
            spans: find what the assistant wrote.
            prompts: render the prompt, too, of those that have `prompt_turns`.

        Returns:
            A rendering for each; or the error that stopped at it, and nothing more.
        """
        sources = [self._source(chat) for chat in chats]
        jobs = [self._job(chat, source, spans, prompts) for chat, source in zip(chats, sources)]
        done: dict[int, Rendering | DataError] = {}
        for source in dict.fromkeys(sources):
            mine = [i for i in range(len(chats)) if sources[i] == source]
            renderer = self._renderers.setdefault(source, Renderer(source))
            for i, rendered in zip(mine, renderer.render([jobs[i] for i in mine])):
                done[i] = self._read(chats[i], source, rendered, spans, prompts)
        whole = next((i for i in range(len(chats)) if i not in done), len(chats))
        return [done[i] for i in range(whole)]

    def _job(self, chat: Chat, source: str, spans: bool, prompts: bool) -> Job:
        variables = {
            **self.tokenizer.special_tokens_map,
            "tools": chat.tools,
            "documents": None,
            **self.variables,
            **chat.template_kwargs,
        }
        renders = [(len(chat.messages), False)]
        if prompts and chat.prompt_turns is not None:
            # A prompt may end with the beginning of the answer.
            renders.append((chat.prompt_turns, chat.messages[chat.prompt_turns - 1]["role"] != "assistant"))
        if spans and not _GENERATION.search(source):
            for i in _assistant_turns(chat):
                renders += [(i, True), (i, False), (i + 1, False)] if i else [(1, False)]
        return Job(chat.messages, variables, renders)

    def _read(
        self, chat: Chat, source: str, rendered: list[Rendered] | DataError, spans: bool, prompts: bool
    ) -> Rendering | DataError:
        """Take apart what `_job` asked for."""
        if isinstance(rendered, DataError):
            return rendered
        (text, marked), *rest = rendered
        prompt = rest.pop(0)[0] if prompts and chat.prompt_turns is not None else None
        if not spans:
            return Rendering(text, prompt)
        if _GENERATION.search(source):
            if _assistant_turns(chat) and not any(end > start for start, end in marked):
                return DataError(
                    "the chat template has {% generation %} but marks nothing of this conversation"
                )
            return Rendering(text, prompt, marked)
        parts = iter(part for part, _ in rest)
        derived = []
        for i in _assistant_turns(chat):
            asked, before = (next(parts), next(parts)) if i else ("", "")
            span = self._derive(text, asked, before, next(parts), chat.messages[i]["content"])
            if span is None:
                return DataError(_AMBIGUOUS)
            derived.append(span)
        return Rendering(text, prompt, derived)

    def _derive(self, text: str, asked: str, before: str, after: str, content: str) -> Span | None:
        """Where one assistant turn lies in `text`; None when that cannot be told.

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
            return None
        if text.startswith(after):
            end = len(after)
        elif content and (found := text.find(content, start)) >= 0:
            end = found + len(content)
        else:
            return None
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


def _assistant_turns(chat: Chat) -> list[int]:
    return [i for i, message in enumerate(chat.messages) if message["role"] == "assistant"]


_AMBIGUOUS = (
    "which tokens the assistant wrote cannot be told: the chat template renders a turn differently when "
    "more turns follow. Give a template that marks them with {% generation %} … {% endgeneration %} "
    "(chat_template_path)"
)
