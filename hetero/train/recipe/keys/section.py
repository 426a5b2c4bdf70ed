"""A section of the recipe: keys that belong together, under one heading of docs/recipes.md."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field


def key(default: Any, description: str, **constraints: Any) -> Any:
    """A key with its default (``...``: required) and what it means, in the words of docs/recipes.md."""
    return Field(default, description=description, **constraints)


class Section(BaseModel):
    """Keys of a recipe. A section is no object of its own: `Recipe` inherits from all, and its YAML is flat."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    title: ClassVar[str]
