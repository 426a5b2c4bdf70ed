"""adamw through ``torch._fused_adamw_``, which on an NPU launches one fused kernel a parameter.

torch_npu accepts ``grad_scale`` and ignores it, so gradients are scaled here. Parameter, gradient and state must share
a dtype: the update is made on the float32 masters and rounded into the parameters, as the op says. The step is torch's
(1 for the first); the vendor's own ``npu_apply_adam_w`` would want the powers of beta of the step before.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.ops.where import Facts


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


def registered(facts: Facts) -> str | None:
    """Why torch's fused AdamW is not to be had on an NPU here; None when it is."""
    there = torch._C._dispatch_has_kernel_for_dispatch_key("aten::_fused_adamw_", "PrivateUse1")
    return None if there else "this torch_npu has no _fused_adamw_"
