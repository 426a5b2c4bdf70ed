"""The keys of a recipe, one file a section, in the order of docs/recipes.md."""

from hetero.train.recipe.keys.data import Data
from hetero.train.recipe.keys.lora import Lora
from hetero.train.recipe.keys.model import Model
from hetero.train.recipe.keys.output import Output
from hetero.train.recipe.keys.preferences import Preferences
from hetero.train.recipe.keys.rollouts import Rollouts
from hetero.train.recipe.keys.run import Run
from hetero.train.recipe.keys.training import Training

SECTIONS = (Run, Model, Lora, Data, Training, Preferences, Rollouts, Output)

__all__ = ["SECTIONS", "Data", "Lora", "Model", "Output", "Preferences", "Rollouts", "Run", "Training"]
