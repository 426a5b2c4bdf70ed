"""What data is checked for: an algorithm, a tokenizer with its chat template, and what the recipe says of data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetero.train.recipe import Recipe


@dataclass(frozen=True)
class Settings:
    """How rows are read and encoded.

    Attributes:
        tokenizer: as :func:`hetero.train.model.load_tokenizer` gives it.
        algorithm: sft, dpo, kto, rm or grpo; None: told by the columns of the first row.
        max_length: in tokens; longer examples are named. None: no limit.
        assistant_only_loss, completion_only_loss, chat_template_kwargs: as in the recipe.
        near: also look for rows that are almost the same (needs datasketch); the similarity that counts, or None.
        samples: how many examples are kept for showing.
    """

    tokenizer: Any
    algorithm: str | None = None
    max_length: int | None = None
    assistant_only_loss: bool = False
    completion_only_loss: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    near: float | None = None
    samples: int = 2

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: Any, **more: Any) -> Settings:
        """The settings that training by `recipe` means."""
        return cls(
            tokenizer,
            recipe.algorithm,
            recipe.max_prompt_length if recipe.algorithm == "grpo" else recipe.max_length,
            recipe.assistant_only_loss,
            recipe.completion_only_loss,
            recipe.chat_template_kwargs,
            **more,
        )


def algorithm_of(row: Any) -> str:
    """Which algorithm the columns of a row are for: its most specific use."""
    columns = {key for key, value in row.items() if value is not None}
    if "rejected" in columns or "rejected_response" in columns:
        return "dpo"
    if columns & {"label", "kto_tag"}:
        return "kto"
    if "prompt" in columns and "completion" not in columns:
        return "grpo"
    return "sft"
