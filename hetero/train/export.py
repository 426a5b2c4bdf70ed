"""From a run or a checkpoint to a plain Hugging Face folder, checked by loading it back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from hetero.errors import CheckpointError, ModelError
from hetero.train import rundir
from hetero.train.checkpoint import files, newest_sound, weights

_PROBE_TOKENS = 16


def save_model(model: Any, tokenizer: Any, directory: Path) -> None:
    """Write what Transformers (or PEFT, for an adapter) loads: weights, configuration, tokenizer, template.

    Weights go to safetensors, a tied one once; the tokenizer is written as it was loaded.
    """
    with _quiet():
        _save(model, tokenizer, directory)


def _save(model: Any, tokenizer: Any, directory: Path) -> None:
    if weights.has_adapter(model):
        weights.write(model, directory)
    else:
        model.save_pretrained(str(directory))
    tokenizer.save_pretrained(str(directory))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Transformers' own progress bars, which would run into ours."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def export(source: Path, to: Path, *, merge: bool = False) -> Path:
    """Write the model of a run directory, or of one checkpoint in it, to the new folder ``to``.

    A LoRA run gives an adapter folder for PEFT, or with ``merge`` a model folder with the adapter folded in.
    The folder appears whole or not at all, and only after it was loaded back and gave the same logits.
    Raises :class:`CheckpointError` or :class:`ModelError` with what is wrong.
    """
    with _quiet():
        return _export(_model_directory(source), to.absolute(), merge)


def _export(source: Path, to: Path, merge: bool) -> Path:
    if to.exists() and any(to.iterdir()):
        raise CheckpointError(f"{to} exists already and is not empty; choose another folder or delete it")
    model, tokenizer = _load(source)
    model.eval()
    if merge:
        if not weights.has_adapter(model):
            raise CheckpointError(
                f"{source} is a whole model: there is no adapter to merge, leave --merge out"
            )
        model = _merged(model)
    expected = probe(model)
    with files.committing(to) as work:
        save_model(model, tokenizer, work)
        _compare(expected, probe(_load_back(work, model)), "writing the folder")
    (to / files.MANIFEST).unlink()
    return to


@torch.no_grad()
def probe(model: Any) -> torch.Tensor:
    """Logits [16, vocabulary], or a reward model's [1], in float32 on fixed tokens spread over the vocabulary."""
    size = model.get_input_embeddings().weight.shape[0]
    ids = torch.linspace(0, size - 1, _PROBE_TOKENS).long().unsqueeze(0)
    return model(input_ids=ids, use_cache=False).logits[0].float()


def _merged(model: Any) -> Any:
    """Fold the adapter in, in float32, where the result can be checked closely; rounded once, at the end."""
    dtype = model.get_base_model().dtype
    model = model.float()
    expected = probe(model)
    merged = model.merge_and_unload()
    _compare(expected, probe(merged), "merging the adapter")
    for parameter in merged.parameters():
        # Parameters alone: rotary frequencies and the like stay float32 in a model of any dtype.
        parameter.data = parameter.data.to(dtype)
    return merged


def _compare(expected: torch.Tensor, got: torch.Tensor, what: str) -> None:
    # Merging rounds W + BA once more than computing both apart; 64 units in the last place cover its sums.
    tolerance = 64 * torch.finfo(torch.float32).eps * max(1.0, float(expected.abs().max()))
    worst = float((expected - got).abs().max())
    if not worst <= tolerance:
        change = f"{worst:.3g} (allowed: {tolerance:.3g})"
        raise ModelError(f"{what} changed the logits by {change}; nothing was kept")


def _model_directory(source: Path) -> Path:
    if (source / files.MANIFEST).exists():
        files.verify(source)
        return source
    if any((source / name).is_file() for name in ("config.json", weights.ADAPTER)):
        return source
    if found := newest_sound(source):
        return found
    raise CheckpointError(f"{source} holds neither a model nor a checkpoint; name the output_dir of a run")


def _load(source: Path) -> tuple[Any, Any]:
    """The trained model in the dtype it was trained in, on the CPU, and its tokenizer."""
    from transformers import AutoConfig, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(source), local_files_only=True)
    if (source / weights.ADAPTER).is_file():
        model = _base_model(source)
    elif files.complete(source):
        config = AutoConfig.from_pretrained(str(source), local_files_only=True)
        model = _auto(source).from_config(config, dtype=config.dtype)
    else:
        model = _auto(source).from_pretrained(str(source), dtype="auto", local_files_only=True)
        return model, tokenizer
    weights.read(model, source)
    return model, tokenizer


def _auto(folder: Path) -> Any:
    """The class of Transformers that loads the model in ``folder``: a language model, or a reward model."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

    kinds = AutoConfig.from_pretrained(str(folder), local_files_only=True).architectures or [""]
    scores = kinds[0].endswith("ForSequenceClassification")
    return AutoModelForSequenceClassification if scores else AutoModelForCausalLM


def _base_model(source: Path) -> Any:
    """The model that the adapter in ``source`` was trained on, with an adapter of the same shape on it."""
    import hetero
    from hetero.train import model as models
    from hetero.train import recipe as recipes

    run_dir = source.parent if files.complete(source) else source
    if not (run_dir / rundir.RECIPE).is_file():
        raise CheckpointError(f"{run_dir / rundir.RECIPE} is missing: it says which model the adapter is for")
    model, _ = models.load(recipes.load(run_dir / rundir.RECIPE, []), hetero.device("cpu"))
    return model


def _load_back(folder: Path, like: Any) -> Any:
    """Load ``folder`` the way its users will."""
    if not weights.has_adapter(like):
        return _auto(folder).from_pretrained(str(folder), dtype="auto", local_files_only=True).eval()
    from peft import PeftModel

    from hetero.train.model.lora import quiet_peft

    with quiet_peft():
        return PeftModel.from_pretrained(like.unload(), str(folder), autocast_adapter_dtype=False).eval()
