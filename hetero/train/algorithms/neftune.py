"""NEFTune (Jain et al. 2023): uniform noise on the embeddings while training."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle


def add_noise(model: nn.Module, alpha: float) -> RemovableHandle:
    """Add uniform noise in ±alpha / sqrt(length * width) to the embeddings of ``model`` in training mode.

    Rows of a batch share the padded length, as in the paper's and Transformers' code. Returns the handle
    that takes it away again.
    """

    def hook(module: nn.Module, args: Any, embedded: Tensor) -> Tensor:
        if not module.training:
            return embedded
        bound = alpha / math.sqrt(embedded.size(1) * embedded.size(2))
        return embedded + torch.zeros_like(embedded).uniform_(-bound, bound)

    return model.get_input_embeddings().register_forward_hook(hook)  # type: ignore[operator]
