"""Estimators of KL(policy || reference) from sampled tokens (Schulman 2020, "Approximating KL divergence").

With ``d = log p - log ref`` of each sampled token:

* k1 = ``d``: unbiased, may be negative; its gradient as a loss has expectation zero, so it belongs in the reward
* k2 = ``d^2 / 2``: its gradient as a loss is that of the KL
* k3 = ``exp(-d) - 1 + d``: unbiased, never negative, low variance
"""

from __future__ import annotations

import torch
from torch import Tensor


def k1(log_p: Tensor, ref_log_p: Tensor) -> Tensor:
    return log_p - ref_log_p


def k2(log_p: Tensor, ref_log_p: Tensor) -> Tensor:
    return 0.5 * (log_p - ref_log_p).square()


def k3(log_p: Tensor, ref_log_p: Tensor) -> Tensor:
    difference = ref_log_p - log_p
    return torch.expm1(difference) - difference


ESTIMATORS = {"k1": k1, "k2": k2, "k3": k3}
