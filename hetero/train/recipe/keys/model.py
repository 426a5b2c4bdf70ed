"""The model and how it computes."""

from __future__ import annotations

from typing import Literal

from hetero.train.recipe.keys.section import Section, key
from hetero.train.recipe.values import Flag


class Model(Section):
    title = "Model"

    model_name_or_path: str = key(
        ...,
        "A Transformers model folder (relative to the recipe), a Hub name in the local cache, or the "
        "builtin `hetero:tiny-qwen2` / `hetero:tiny-llama`.",
        examples=["models/SmolLM2-135M-Instruct"],
    )
    dtype: Literal["float32", "bfloat16"] = key("float32", "Type of the weights and of the computation.")
    attn_implementation: str = key(
        "sdpa",
        "Attention of Transformers: `sdpa` (`hetero.ops.attention` where that is proven), `eager` or another it knows.",
    )
    gradient_checkpointing: Flag = key(
        False, "Recompute activations in the backward pass: less memory, about a third more time."
    )
    trust_remote_code: Literal[False] = key(
        False,
        "Code inside a model folder is never run; the key exists so that other tools' recipes load.",
    )
    chat_template_path: str | None = key(
        None, "A Jinja chat template that replaces the tokenizer's (relative to the recipe)."
    )
    eos_token: str | None = key(None, "End token, when the tokenizer's own is not the one that ends a turn.")
    resize_token_embeddings: Flag = key(False, "Add embedding rows for tokens that the model lacks.")
