"""A reward model as a reward: a sequence classifier with one output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hetero.errors import DataError, HeteroError, RecipeError
from hetero.train.data.formats import Chat
from hetero.train.data.template import ChatTemplate
from hetero.train.model.folder import check_folder

_ROWS = 8  # scored together


class RewardModel:
    """Scores prompt and completion with a Transformers sequence classifier, as ``algorithm: rm`` trains one.

    The text is that of the model's own chat template for messages, else prompt and completion joined. It is read
    whole; what is longer than the model's positions keeps its end.

    Args:
        folder: the model and its tokenizer.

    Raises:
        RecipeError: the folder is incomplete, or its model has no single output.
    """

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.__name__ = Path(folder).name
        try:
            check_folder(Path(folder))
            self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model: Any
            model, info = AutoModelForSequenceClassification.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, output_loading_info=True
            )
        except (HeteroError, OSError, ValueError, ImportError, KeyError, RuntimeError) as error:
            raise RecipeError(f"reward_funcs: cannot load the reward model {folder}: {error}") from error
        if model.config.num_labels != 1:
            raise RecipeError(
                f"reward_funcs: {folder}: a reward model has one output, this model has {model.config.num_labels}"
            )
        if missing := sorted(info["missing_keys"]):
            raise RecipeError(
                f"reward_funcs: {folder}: its weights lack {missing[0]}, which would be random: no reward model"
            )
        self._template = ChatTemplate(self._tokenizer)
        self._model = model.eval().requires_grad_(False)
        if (
            model.config.pad_token_id is None
        ):  # Transformers reads the score at the last token that is not this one
            model.config.pad_token_id = self._tokenizer.pad_token_id

    def to(self, device: torch.device) -> None:
        """Move the model."""
        self._model.to(device)

    @torch.no_grad()
    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **_: Any) -> list[float]:
        """One score a completion, float32."""
        scores: list[float] = []
        rows = [self._ids(p, c) for p, c in zip(prompts, completions)]
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            width = max(map(len, part))
            ids = torch.full((len(part), width), self._model.config.pad_token_id or 0)
            mask = torch.zeros_like(ids)
            for at, row in enumerate(part):
                ids[at, : len(row)] = torch.tensor(row)
                mask[at, : len(row)] = 1
            hidden = self._model.base_model(
                input_ids=ids.to(self._model.device),
                attention_mask=mask.to(self._model.device),
                use_cache=False,
            ).last_hidden_state
            # The last token of each row by its length: an end token within the text may be the padding's.
            last = hidden[torch.arange(len(part)), mask.sum(1).to(hidden.device) - 1]
            head = getattr(self._model, "score", None) or self._model.classifier
            scores += head(last).float().squeeze(-1).tolist()
        return scores

    def _ids(self, prompt: Any, completion: Any) -> list[int]:
        if isinstance(prompt, str):
            ids = self._tokenizer(prompt + completion)["input_ids"]
            if ids[-1:] != [self._tokenizer.eos_token_id]:
                ids.append(self._tokenizer.eos_token_id)
        else:
            chat = Chat([*prompt, *completion], None)
            (rendering,) = self._template.render([chat], spans=False, prompts=False)
            if isinstance(rendering, DataError):
                raise rendering
            ids = self._tokenizer(rendering.text, add_special_tokens=False)["input_ids"]
        limit = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        return list(ids[-limit:] if limit else ids)
