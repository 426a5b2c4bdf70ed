"""Losses of single answers that are known to be good or bad.

With ``r`` the policy's log-probability of the answer minus the reference's and ``z`` the KL divergence between
the two, estimated on answers to other prompts and never below 0:

=================  ==================================  ================================  ====================
loss               desirable                           undesirable                       source
=================  ==================================  ================================  ====================
kto                ``1 - sig(b (r - z))``              ``1 - sig(b (z - r))``            arXiv 2402.01306, 7
apo_zero_unpaired  ``1 - sig(b r)``                    ``sig(b r)``                      arXiv 2408.06266, 7
=================  ==================================  ================================  ====================
"""

from __future__ import annotations

import torch
from torch import Tensor


def kto(ratio: Tensor, desirable: Tensor, kl: Tensor, beta: float) -> Tensor:
    """[n] from ``r`` [n], bool [n] and ``z`` (a number); no gradient flows through ``z``."""
    better = ratio - kl.detach()
    return torch.sigmoid(beta * torch.where(desirable, -better, better))


def apo_zero_unpaired(ratio: Tensor, desirable: Tensor, kl: Tensor, beta: float) -> Tensor:
    return kto(ratio, desirable, torch.zeros_like(kl), beta)


LOSSES = {f.__name__: f for f in (kto, apo_zero_unpaired)}
#: Those that use ``z``.
WITH_KL = ("kto",)
