"""A recipe for loading, and a small model folder on disk."""

from __future__ import annotations

import shutil

import pytest

import hetero
from hetero.train.model.tiny import tiny_model, tiny_tokenizer
from hetero.train.recipe.model import Recipe


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = tiny_tokenizer()
    tiny_model(tokenizer, "llama", hidden=32, seed=3).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def model_folder(saved_model, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(saved_model, tmp_path / "tiny")


@pytest.fixture
def load():
    from hetero.train.model import load

    def call(name="hetero:tiny-qwen2", **keys):
        recipe = Recipe(model_name_or_path=str(name), dataset_name="unused", **keys)
        return load(recipe, hetero.device("cpu"))

    return call
