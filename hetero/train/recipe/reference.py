"""The table of recipe keys in docs/recipes.md, made from `Recipe`.

To bring the page up to date: `python -m hetero.train.recipe.reference docs/recipes.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic.fields import FieldInfo

from hetero.train.recipe.keys import SECTIONS
from hetero.train.recipe.load import ALIASES
from hetero.train.recipe.values import expected, plain

BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"


def table() -> str:
    """Markdown: one table a section, a row a key."""
    head = "| key | value | default | meaning |\n|---|---|---|---|\n"
    return "\n\n".join(
        f"### {section.title}\n\n{head}"
        + "\n".join(_row(key, field) for key, field in section.model_fields.items())
        for section in SECTIONS
    )


def _row(key: str, field: FieldInfo) -> str:
    default = (
        "required" if field.is_required() else "" if field.default is None else f"`{plain(field.default)}`"
    )
    also = [name for name, target in ALIASES.items() if target == key]
    names = f"`{key}`" + (f" (also `{'`, `'.join(also)}`)" if also else "")
    words = expected(field.annotation, field.metadata)
    return f"| {names} | {words} | {default} | {field.description} |"


def rewrite(document: str) -> str:
    """`document` with what stands between the two markers replaced by the current table."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewrite(path.read_text(encoding="utf-8")), encoding="utf-8")
