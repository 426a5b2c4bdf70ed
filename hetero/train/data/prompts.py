"""Prompts for rollouts, as token ids, with the columns that reward functions get."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetero.errors import DataError
from hetero.train.data.dataset import ROWS_AT_ONCE, source_of
from hetero.train.data.encode import Encoder
from hetero.train.data.formats import Chat, alpaca_prompt, system_of, text_of, turns_of, with_template_columns
from hetero.train.data.report import EncodeReport
from hetero.train.data.template import ChatTemplate

if TYPE_CHECKING:
    from hetero.train.recipe import Recipe

#: A row needs one of these; what it says is answered by the model.
COLUMNS = ("prompt", "messages", "conversations", "instruction")


@dataclass(frozen=True)
class Prompt:
    """``content`` is text or messages; ``columns`` are the row's other ones, as the file has them."""

    content: str | list[dict[str, Any]]
    columns: dict[str, Any]
    chat: Chat | None = None


def convert_prompt(row: Mapping[str, Any], place: str) -> Prompt:
    """A row with one of :data:`COLUMNS`. Messages lose what the assistant says at their end.

    Raises:
        DataError: none of them is there, or it is malformed.
    """
    row = {key: value for key, value in row.items() if value is not None}
    name = next((column for column in COLUMNS if column in row), None)
    if name is None:
        have = ", ".join(row) or "none"
        raise DataError(
            f"{place}: there is no prompt; rollouts need {', '.join(COLUMNS[:-1])} or {COLUMNS[-1]}, it has: {have}"
        )
    columns = {key: value for key, value in row.items() if key != name}
    if name == "prompt" and isinstance(row["prompt"], str):
        return Prompt(text_of(row["prompt"], place, "prompt"), columns)
    if name == "instruction":
        messages = alpaca_prompt(row, place)
    else:
        messages = system_of(row, place) + turns_of(row[name], place, name)
    while messages and messages[-1]["role"] == "assistant":
        messages = messages[:-1]
    if not messages:
        raise DataError(f"{place}: {name} holds only what the assistant says: there is nothing to answer")
    return Prompt(messages, columns, with_template_columns(Chat(messages, len(messages)), row, place))


class PromptDataset(Sequence[dict[str, Any]]):
    """Examples {"prompt_ids", "prompt": text or messages, "columns": {name: value}}."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]


def build_prompts(recipe: Recipe, tokenizer: Any, split: str) -> tuple[PromptDataset, EncodeReport]:
    """Read and encode prompts; those longer than ``max_prompt_length`` are left out.

    Raises:
        DataError: nothing there, a malformed row, or no prompt left; names file, line and column.
    """
    source = source_of(recipe, split)
    report = EncodeReport(
        source.name,
        source.split,
        recipe.max_prompt_length,
        content_hash=source.content_hash(),
        label_tokens=None,
    )
    kept: list[dict[str, Any]] = []
    rows = ((place, convert_prompt(row, place)) for place, row in source)
    with ChatTemplate(tokenizer, recipe.chat_template_kwargs) as template:
        encoder = Encoder(tokenizer, template)
        while part := list(itertools.islice(rows, ROWS_AT_ONCE)):
            for (place, prompt), ids in zip(part, _ids(encoder, part)):
                report.total += 1
                if recipe.max_prompt_length is not None and len(ids) > recipe.max_prompt_length:
                    report.drop(f"longer than max_prompt_length {recipe.max_prompt_length}", place)
                    continue
                if not ids:
                    report.drop("empty prompt", place)
                    continue
                kept.append({"prompt_ids": ids, "prompt": prompt.content, "columns": prompt.columns})
                report.kept += 1
                report.tokens += len(ids)
                report.longest = max(report.longest, len(ids))
    report.warnings += source.skipped
    if not report.total:
        raise DataError(f"{source.name} has no rows")
    if not kept:
        raise DataError(f"no row of {source.name} can be used: {report.dropped_text()}")
    return PromptDataset(kept), report


def _ids(encoder: Encoder, part: Sequence[tuple[str, Prompt]]) -> list[list[int]]:
    chats = [prompt.chat for _, prompt in part if prompt.chat is not None]
    places = [place for place, prompt in part if prompt.chat is not None]
    renderings = encoder.template.render(chats, spans=False, prompts=True) if chats else []
    for place, rendering in zip(places, renderings):
        if isinstance(rendering, DataError):
            raise DataError(f"{place}: {rendering}") from rendering
    texts = iter(rendering.prompt for rendering in renderings if not isinstance(rendering, DataError))
    return [
        encoder.text_ids(str(prompt.content)) if prompt.chat is None else encoder.ids(next(texts) or "")
        for _, prompt in part
    ]
