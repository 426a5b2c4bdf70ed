"""What the algorithms share that compare a policy with a reference: where the reference's numbers come from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from hetero import ops
from hetero.errors import ModelError
from hetero.train.algorithms.base import Algorithm, Batch, Example
from hetero.train.algorithms.scoring import score
from hetero.train.model.head import check_head
from hetero.train.preference import cache
from hetero.train.preference.reference import Reference, without_dropout

if TYPE_CHECKING:
    from hetero.train.distributed import Engine


class Referenced(Algorithm):
    """Base of DPO and KTO.

    The reference's log-probabilities are computed beside the policy's, or with ``precompute_ref_log_probs`` once
    before training (:mod:`hetero.train.preference.cache`), after which no reference is held.
    """

    #: The reference's numbers for an example, as columns of the data.
    columns: ClassVar[tuple[str, ...]]

    def __init__(self, recipe: Any, tokenizer: Any) -> None:
        self._recipe, self._tokenizer = recipe, tokenizer
        self._reference: Reference | None = None

    @property
    def needs_reference(self) -> bool:
        """Whether the loss has a reference at all."""
        return True

    @abstractmethod
    def reference_batch(self, examples: Sequence[Example]) -> Batch:
        """What the reference has to score for :attr:`columns`."""

    @abstractmethod
    def reference_numbers(self, log_p: Tensor, batch: Batch) -> Tensor:
        """[columns, examples] from the scores [rows, width] of that batch."""

    def check(self, model: nn.Module) -> None:
        check_head(model)
        if self._recipe.disable_dropout:
            without_dropout(model)

    def begin(self, engine: Engine, splits: Mapping[str, Sequence[Example]]) -> None:
        if not self.needs_reference:
            return
        other, once = self._recipe.ref_model_name_or_path, self._recipe.precompute_ref_log_probs
        self._reference = Reference(engine.model, (lambda: self._load(engine)) if other else None)
        if other or not once:
            self._reference.hold()
        if once:
            for data in splits.values():
                self._precompute(engine, data)
            self._reference = None  # the policy, which stood in for it, is about to change

    def _load(self, engine: Engine) -> nn.Module:
        from hetero.train import model as models
        from hetero.train.patching import patch

        recipe = self._recipe
        changes = {"model_name_or_path": recipe.ref_model_name_or_path, "use_peft": False}
        model, tokenizer = models.load(recipe.model_copy(update=changes), engine.device)
        if tokenizer.get_vocab() != self._tokenizer.get_vocab():
            raise ModelError(
                f"ref_model_name_or_path: {recipe.ref_model_name_or_path} has another vocabulary than "
                f"{recipe.model_name_or_path}: log-probabilities of other tokens cannot be compared"
            )
        patch(model)
        check_head(model)
        return model

    def _precompute(self, engine: Engine, data: Any) -> None:
        assert self._reference is not None
        recipe = self._recipe
        facts = {
            "algorithm": self.name,
            "columns": self.columns,
            "ld_alpha": recipe.ld_alpha,
            "max_length": recipe.max_length,
            "attention": recipe.attn_implementation,
            "device": str(engine.device.type),
            "ops": ops.current_policy().text,
            "torch": torch.__version__,
        }
        with self._reference.active() as model:
            key = cache.key_of(model, data.sequences, facts)
            root = Path(recipe.ref_cache_dir) if recipe.ref_cache_dir else cache.default_root()
            data.columns |= cache.log_probs(
                root / key,
                data,
                self.columns,
                lambda examples: self._numbers(engine.to_device(self.reference_batch(examples))),
                recipe.precompute_ref_batch_size or recipe.per_device_train_batch_size,
                engine.comm,
            )

    def _numbers(self, batch: Batch) -> Tensor:
        return self.reference_numbers(self.live(batch), batch)

    def given(self, examples: Sequence[Example]) -> Tensor | None:
        """The precomputed numbers [columns, examples], or None when they are computed on the way."""
        if not self._recipe.precompute_ref_log_probs:
            return None
        return torch.tensor([[example[name] for example in examples] for name in self.columns])

    def live(self, batch: Batch) -> Tensor:
        """The reference's log-probabilities [rows, width] of a scorable batch."""
        assert self._reference is not None
        with self._reference.active() as model:
            return score(model, batch).log_p
