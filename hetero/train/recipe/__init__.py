"""Training recipes: flat YAML with TRL's key names, checked before anything heavy is loaded."""

from hetero.train.recipe.load import load
from hetero.train.recipe.model import Recipe

__all__ = ["Recipe", "load"]
