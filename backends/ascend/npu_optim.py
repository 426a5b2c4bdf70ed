"""adamw through ``torch._fused_adamw_``, which on an NPU launches one fused kernel a parameter.

torch_npu accepts ``grad_scale`` and ignores it, so gradients are scaled here. Parameter, gradient and state must share
a dtype: the update is made on the float32 masters and rounded into the parameters, as the op says. The step is torch's
(1 for the first); the vendor's own ``npu_apply_adam_w`` would want the powers of beta of the step before.

The betas reach the kernel as float32, where ``1 - 0.999`` is off by one part in 80,000: for such a beta the condition
refuses, and plain torch, whose scalars are float64, does the step. 0.9, 0.95 and the like lose nothing.
"""

from __future__ import annotations

import struct

import torch
from torch import Tensor

from hetero.ops.where import Facts

#: Of float32, that 1 - beta may be off by.
_ROUNDINGS = 4


def adamw(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], masters: list[Tensor],
    grad_scale: Tensor | None, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int,
) -> None:  # fmt: skip
    """One step, in place."""
    kept = [i for i, p in enumerate(params) if p.numel()]
    if not kept:
        return
    stored = [params[i] for i in kept]
    wide = [masters[i] if masters else params[i].float() for i in kept]
    scaled = [grads[i].float() if grad_scale is None else grads[i].float() * grad_scale for i in kept]
    count = torch.full((), float(step), dtype=torch.float32, device=stored[0].device)
    torch._fused_adamw_(
        wide, scaled, [exp_avgs[i] for i in kept], [exp_avg_sqs[i] for i in kept], [], [count] * len(kept),
        lr=lr, beta1=beta1, beta2=beta2, weight_decay=weight_decay, eps=eps, amsgrad=False, maximize=False,
    )  # fmt: skip
    for param, new in zip(stored, wide):
        if param is not new:
            param.copy_(new)


def exact(facts: Facts) -> str | None:
    """Why a step would lose digits in float32 betas; None when it would not."""
    for name in ("beta1", "beta2"):
        beta = facts.flags[name]
        rest = 1 - struct.unpack("f", struct.pack("f", beta))[0]
        if abs(rest - (1 - beta)) > _ROUNDINGS * torch.finfo(torch.float32).eps * (1 - beta):
            off = rest / (1 - beta) - 1
            return f"{name}={beta} goes to the kernel as float32, where 1 - {name} is off by {off:.0e}"
    return None


def registered() -> str | None:
    """Why torch's fused AdamW is not to be had on an NPU here; None when it is."""
    there = torch._C._dispatch_has_kernel_for_dispatch_key("aten::_fused_adamw_", "PrivateUse1")
    return None if there else "this torch_npu has no _fused_adamw_"
