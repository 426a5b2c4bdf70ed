"""The tokenizer that the golden numbers were made with."""

from __future__ import annotations

import pytest

from hetero.train.model.tiny import tiny_tokenizer
from hetero.train.recipe import Recipe


@pytest.fixture
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture
def recipe():
    def recipe(**keys) -> Recipe:
        return Recipe(
            **({"model_name_or_path": "hetero:tiny-qwen2", "dataset_name": "hetero:arithmetic"} | keys)
        )

    return recipe
