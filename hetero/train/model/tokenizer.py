"""The tokenizer of a run: padding and end tokens, chat template, agreement with the model's embeddings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hetero.errors import ModelError


def prepare_tokenizer(
    tokenizer: Any, *, chat_template_path: str | None = None, eos_token: str | None = None
) -> None:
    """Give `tokenizer` what training needs; nothing is changed that was not missing or asked for.

    A missing padding token becomes the end token. That is safe because every mask of hetero comes from
    sequence lengths, never from comparing ids with the padding id.
    """
    if eos_token is not None:
        if eos_token not in tokenizer.get_vocab():
            raise ModelError(f"eos_token {eos_token!r} is not in the tokenizer's vocabulary")
        tokenizer.eos_token = eos_token
    if tokenizer.eos_token is None:
        raise ModelError("the tokenizer has no end-of-sequence token; name one with `eos_token`")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if chat_template_path is not None:
        tokenizer.chat_template = read_chat_template(Path(chat_template_path).expanduser())


def read_chat_template(path: Path) -> str:
    """The Jinja text, checked for syntax, of a file or of `chat_template.jinja` in a model folder."""
    file = path / "chat_template.jinja" if path.is_dir() else path
    if not file.is_file():
        raise ModelError(f"chat_template_path: {file} does not exist")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"chat_template_path: {file} is not UTF-8 text ({error.reason})") from error
    from jinja2 import TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Transformers adds the {% generation %} tag in an extension of its own; to plain Jinja it is unknown.
    plain = re.sub(r"\{%[-+]?\s*(end)?generation\s*[-+]?%\}", "", text)
    try:
        ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols"]).parse(plain)
    except TemplateSyntaxError as error:
        raise ModelError(f"chat_template_path: {file} line {error.lineno}: {error.message}") from error
    return text


def fit_embeddings(model: Any, tokenizer: Any, *, resize: bool) -> None:
    """Make sure that every token id has an embedding row.

    Raises:
        ModelError: the tokenizer has ids beyond the embedding and `resize` is off.
    """
    rows = model.get_input_embeddings().weight.shape[0]
    needed = max(tokenizer.get_vocab().values()) + 1
    if needed <= rows:
        return
    if not resize:
        raise ModelError(
            f"the tokenizer uses ids up to {needed - 1}, but the model has {rows} embedding rows: it belongs "
            "to another model, or tokens were added to it; `resize_token_embeddings: true` adds the rows"
        )
    model.resize_token_embeddings(needed)
