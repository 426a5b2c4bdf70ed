"""The recipe: every key of a training run, its type, default and meaning. Names are those of TRL.

`hetero.train.recipe.reference` renders the keys into docs/recipes.md: descriptions are documentation.
"""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import model_validator

from hetero.train.recipe.algorithms import with_defaults
from hetero.train.recipe.depends import DEPENDS
from hetero.train.recipe.keys import Data, Lora, Model, Output, Preferences, Rollouts, Run, Training


# The last first: pydantic begins with the fields of the last base.
class Recipe(Output, Rollouts, Preferences, Training, Data, Lora, Model, Run):
    """A validated training recipe. `hetero.train.recipe.load` makes one from a YAML file and overrides.

    Paths are absolute after `load`. `max_steps` above 0 wins over `num_train_epochs`, as in TRL.
    """

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_algorithm(cls, values: Any) -> Any:
        return with_defaults(values) if isinstance(values, dict) else values

    @property
    def has_eval(self) -> bool:
        """Whether the recipe names evaluation data."""
        return self.eval_dataset_name is not None or self.dataset_test_split is not None

    def to_yaml(self) -> str:
        """The resolved recipe as YAML that `load` reads back to an equal recipe."""
        fields = Recipe.model_fields
        values = {
            k: v for k, v in self.model_dump().items() if v is not None or fields[k].default is not None
        }
        for key, (other, wanted) in DEPENDS.items():
            if values.get(other) not in wanted:
                values.pop(key, None)
        if self.max_steps > 0:
            values.pop("num_train_epochs")
        return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
