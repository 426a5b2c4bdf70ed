"""The reference model of a run: what the policy is kept close to."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from hetero.errors import ModelError
from hetero.train.checkpoint.weights import has_adapter


class Reference:
    """The model that a policy started from, or another one, frozen and without dropout.

    For an adapter it is the policy with the adapter off; nothing is held twice. Otherwise it is a copy, made by
    ``model`` when it is first used (or given as ``other``), and it has the policy's dtype and attention, so that
    both give the same numbers before the first step.
    """

    def __init__(self, policy: nn.Module, other: Callable[[], nn.Module] | None = None) -> None:
        self._policy, self._other = policy, other
        self._model: nn.Module | None = None

    def hold(self) -> None:
        """Make the copy now, while the policy is untrained. With an adapter there is none to make."""
        if self._model is None and (self._other is not None or not has_adapter(self._policy)):
            model = copy.deepcopy(self._policy) if self._other is None else self._other()
            self._model = model.requires_grad_(False).eval()

    @property
    def model(self) -> nn.Module | None:
        """The copy, or None while the policy stands in for it."""
        return self._model

    @contextlib.contextmanager
    def active(self) -> Iterator[nn.Module]:
        """The reference, without gradients, in evaluation mode: no dropout, no noise, no recomputation.

        Before :meth:`hold` it is the policy itself, which is right as long as that is untrained.
        """
        if self._model is not None:
            with torch.no_grad():
                yield self._model
            return
        policy: Any = self._policy
        off = policy.disable_adapter() if has_adapter(policy) else contextlib.nullcontext()
        with evaluating(policy), torch.no_grad(), off:
            yield policy

    @torch.no_grad()
    def follow(self, share: float) -> None:
        """``reference = share * policy + (1 - share) * reference`` (TR-DPO, arXiv 2404.09656)."""
        if self._model is None:
            raise ModelError("an adapter's reference is the model without it: there is nothing to move")
        mine = dict(self._model.named_parameters())
        for name, parameter in self._policy.named_parameters():
            mine[name].mul_(1 - share).add_(parameter.detach(), alpha=share)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """``model`` in evaluation mode inside the block."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def without_dropout(model: nn.Module) -> None:
    """Set every dropout probability to 0, those of adapters and of attention included."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0  # type: ignore[assignment]
