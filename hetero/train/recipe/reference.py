"""The table of recipe keys in docs/recipes.md, made from `Recipe`.

To bring the page up to date: `python -m hetero.train.recipe.reference docs/recipes.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hetero.train.recipe.load import ALIASES
from hetero.train.recipe.model import Recipe
from hetero.train.recipe.values import expected, plain

BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"


def table() -> str:
    """Markdown: one table a section, a row a key."""
    sections: dict[str, list[str]] = {}
    for key, field in Recipe.model_fields.items():
        extra = field.json_schema_extra
        assert isinstance(extra, dict)
        default = (
            "required"
            if field.is_required()
            else ""
            if field.default is None
            else f"`{plain(field.default)}`"
        )
        also = [name for name, target in ALIASES.items() if target == key]
        names = f"`{key}`" + (f" (also `{'`, `'.join(also)}`)" if also else "")
        words = expected(field.annotation, field.metadata)
        sections.setdefault(str(extra["section"]), []).append(
            f"| {names} | {words} | {default} | {field.description} |"
        )
    head = "| key | value | default | meaning |\n|---|---|---|---|\n"
    return "\n\n".join(f"### {name}\n\n{head}" + "\n".join(rows) for name, rows in sections.items())


def rewrite(document: str) -> str:
    """`document` with what stands between the two markers replaced by the current table."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewrite(path.read_text(encoding="utf-8")), encoding="utf-8")
