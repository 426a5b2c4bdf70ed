"""From a recipe's `model_name_or_path` to a model on a device and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hetero.errors import ModelError
from hetero.train.model import tiny
from hetero.train.model.folder import check_folder, is_local
from hetero.train.model.lora import add_lora
from hetero.train.model.tokenizer import fit_embeddings, prepare_tokenizer

DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}


#: Output layers of sequence classifiers, as Transformers names them.
_HEADS = ("score.weight", "score.bias", "classifier.weight", "classifier.bias")


def load(recipe: Any, device: Any) -> tuple[Any, Any]:
    """The model and tokenizer that `recipe` names, ready for training on `device` (a `hetero.Device`).

    `model_name_or_path` is a Transformers folder, one of the builtin names "hetero:tiny-qwen2" and
    "hetero:tiny-llama" (initialised from the recipe's `seed`), or a name on the Hub or in its cache. The
    model comes in `dtype`, in training mode, wrapped by PEFT where the recipe says so. Its configuration is
    left as it was, since it is saved with the trained model: call the model with `use_cache=False`, or packed
    documents see each other. It is not patched: `hetero.patch` does that.

    Raises:
        ModelError: missing or damaged files, an unknown dtype or attention, a tokenizer that does not fit.
    """
    name = recipe.model_name_or_path
    dtype = resolve_dtype(recipe.dtype)
    if name.startswith(tiny.PREFIX):
        model, tokenizer = _load_builtin(name, dtype, recipe)
    else:
        model, tokenizer = _load_pretrained(name, dtype, recipe)
    prepare_tokenizer(tokenizer, chat_template_path=recipe.chat_template_path, eos_token=recipe.eos_token)
    fit_embeddings(model, tokenizer, resize=recipe.resize_token_embeddings)
    if _scores(recipe):
        # Transformers reads the score at the last token that is not this one.
        model.config.pad_token_id = tokenizer.pad_token_id
    _check_context(model, recipe.max_length)
    model.to(device=device.torch)
    if recipe.use_peft:
        model = add_lora(
            model,
            r=recipe.lora_r,
            alpha=recipe.lora_alpha,
            dropout=recipe.lora_dropout,
            target_modules=recipe.lora_target_modules,
            modules_to_save=recipe.lora_modules_to_save,
            seed=recipe.seed,
            task="SEQ_CLS" if _scores(recipe) else "CAUSAL_LM",
        )
    return model.train(), tokenizer


def load_tokenizer(name: str, *, chat_template_path: str | None = None, eos_token: str | None = None) -> Any:
    """The tokenizer of a model, as :func:`load` prepares it, without the model. Arguments as in the recipe.

    Raises:
        ModelError: there is none, or it lacks what training needs.
    """
    if name.startswith(tiny.PREFIX):
        if name not in tiny.NAMES:
            raise ModelError(f"there is no builtin model {name!r}; there are: {', '.join(tiny.NAMES)}")
        tokenizer: Any = tiny.tiny_tokenizer()
    else:
        from transformers import AutoTokenizer

        local = is_local(name)
        source = str(Path(name).expanduser()) if local else name
        if local and not Path(source).is_dir():
            raise ModelError(f"{source} is not a folder; give one that holds a tokenizer")
        try:
            tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local, trust_remote_code=False)
        except (OSError, ValueError, ImportError, KeyError, RuntimeError) as error:
            raise ModelError(f"cannot load the tokenizer of {name!r}: {error}") from error
    prepare_tokenizer(tokenizer, chat_template_path=chat_template_path, eos_token=eos_token)
    return tokenizer


def _scores(recipe: Any) -> bool:
    """Whether a reward model is asked for: a classifier with one output instead of a language model."""
    return recipe.algorithm == "rm"


def resolve_dtype(name: str | torch.dtype | None) -> torch.dtype:
    """The torch dtype of a recipe's `dtype`; None means float32."""
    if isinstance(name, torch.dtype):
        return name
    key = (name or "float32").removeprefix("torch.")
    if key not in DTYPES:
        raise ModelError(f"dtype {name!r} is not known; use one of float32, bfloat16, float16")
    return DTYPES[key]


def _load_builtin(name: str, dtype: torch.dtype, recipe: Any) -> tuple[Any, Any]:
    if name not in tiny.NAMES:
        raise ModelError(f"there is no builtin model {name!r}; there are: {', '.join(tiny.NAMES)}")
    tokenizer = tiny.tiny_tokenizer()
    model: Any = tiny.tiny_model(tokenizer, name.rsplit("-", 1)[1], seed=recipe.seed, scores=_scores(recipe))
    try:
        model.set_attn_implementation(recipe.attn_implementation)
    except (ValueError, ImportError, OSError, RuntimeError) as error:
        raise ModelError(f"attn_implementation {recipe.attn_implementation!r}: {error}") from error
    for parameter in model.parameters():
        # Parameters alone, as `from_pretrained` does: rotary frequencies stay float32 in a model of any dtype.
        parameter.data = parameter.data.to(dtype)
    return model, tokenizer


def _load_pretrained(name: str, dtype: torch.dtype, recipe: Any) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

    local = is_local(name)
    source = str(Path(name).expanduser()) if local else name
    if local:
        check_folder(Path(source))
    options = {"trust_remote_code": recipe.trust_remote_code, "local_files_only": local}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        auto: Any = AutoModelForSequenceClassification if _scores(recipe) else AutoModelForCausalLM
        loaded = auto.from_pretrained(
            source,
            dtype=dtype,
            attn_implementation=recipe.attn_implementation,
            use_safetensors=True,
            output_loading_info=True,
            **({"num_labels": 1} if _scores(recipe) else {}),
            **options,
        )
    except (OSError, ValueError, ImportError, KeyError, RuntimeError) as error:
        hint = "" if local else "; there is no folder of that name here, and the Hub or its cache gave none"
        raise ModelError(f"cannot load the model {name!r}{hint}: {error}") from error
    model, info = loaded
    # The head of a reward model may be new: it is drawn from the recipe's seed.
    new_head = set(_HEADS) if _scores(recipe) else set()
    if missing := sorted(set(info["missing_keys"]) - new_head):
        raise ModelError(
            f"the weights of {name!r} lack {len(missing)} tensors that its config.json asks for "
            f"({missing[0]}, ...); they would be random: the folder is incomplete or mixes two models"
        )
    return model, tokenizer


def _check_context(model: Any, max_length: int | None) -> None:
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if max_length is not None and limit is not None and max_length > limit:
        raise ModelError(
            f"max_length is {max_length}, but the model was made for {limit} positions; lower max_length, or "
            "set rope scaling in the model's config.json"
        )
