"""docs/recipes.md holds the current table of keys."""

from pathlib import Path

from hetero.train.recipe import Recipe, reference

PAGE = Path(__file__).parents[3] / "docs/recipes.md"


def test_page_is_current():
    text = PAGE.read_text(encoding="utf-8")
    assert reference.BEGIN in text and reference.rewrite(text) == text, (
        "run: python -m hetero.train.recipe.reference docs/recipes.md"
    )


def test_every_key_is_described():
    assert all(
        field.description and field.description.endswith(".") for field in Recipe.model_fields.values()
    )
    assert all(f"`{key}`" in reference.table() for key in Recipe.model_fields)
