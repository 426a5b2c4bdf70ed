"""LoRA adapters."""

from __future__ import annotations

from typing import Literal

from hetero.train.recipe.keys.section import Section, key
from hetero.train.recipe.values import Flag, Names, Real, Whole


class Lora(Section):
    title = "LoRA"

    use_peft: Flag = key(False, "Train a LoRA adapter instead of all weights.")
    lora_r: Whole = key(16, "Rank of the adapter.", ge=1)
    lora_alpha: Real = key(32.0, "Scale of the adapter: its output is multiplied by alpha / r.", gt=0)
    lora_dropout: Real = key(0.05, "Dropout in front of the adapter.", ge=0, lt=1)
    lora_target_modules: Literal["all-linear"] | Names = key(
        "all-linear", "Layers that get an adapter, by name.", examples=[["q_proj", "v_proj"]]
    )
    lora_modules_to_save: Names | None = key(None, "Layers trained whole beside the adapter.")
