"""`hetero convert`: recipes of LLaMA-Factory, TRL and ms-swift as recipes of hetero."""

from hetero.train.recipe.convert.convert import Converted, convert
from hetero.train.recipe.convert.read import read

__all__ = ["Converted", "convert", "read"]
