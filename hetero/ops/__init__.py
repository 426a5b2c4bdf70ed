"""Fused ops for training, each declared once and run by the best proven implementation for the device.

Call them as functions (``hetero.ops.rms_norm(x, weight)``); ask ``explain("rms_norm", x, weight)`` which
kernel would run and why; choose with ``use("rms_norm=reference")`` or ``HETERO_OPS``; see what ran with
``placement_summary()``.
"""

from hetero.ops.definitions.adamw import adamw
from hetero.ops.definitions.attention import attention
from hetero.ops.definitions.attention_varlen import attention_varlen
from hetero.ops.definitions.clip_grad_norm import clip_grad_norm
from hetero.ops.definitions.cross_entropy import cross_entropy
from hetero.ops.definitions.fused_add_rms_norm import fused_add_rms_norm
from hetero.ops.definitions.fused_linear_cross_entropy import fused_linear_cross_entropy
from hetero.ops.definitions.glu import geglu, swiglu
from hetero.ops.definitions.grouped_matmul import grouped_matmul
from hetero.ops.definitions.layer_norm import layer_norm
from hetero.ops.definitions.linear_log_prob import linear_log_prob
from hetero.ops.definitions.moe import moe_permute, moe_unpermute
from hetero.ops.definitions.rms_norm import rms_norm
from hetero.ops.definitions.rope import rope
from hetero.ops.explain import explain
from hetero.ops.impl import Impl
from hetero.ops.placement import placement, placement_summary, reset_placement
from hetero.ops.policy import current as current_policy
from hetero.ops.policy import use
from hetero.ops.registry import register, unregister
from hetero.ops.select import check_policy
from hetero.ops.where import Where

__all__ = [
    "Impl",
    "Where",
    "adamw",
    "attention",
    "attention_varlen",
    "check_policy",
    "clip_grad_norm",
    "cross_entropy",
    "current_policy",
    "explain",
    "fused_add_rms_norm",
    "fused_linear_cross_entropy",
    "geglu",
    "grouped_matmul",
    "layer_norm",
    "linear_log_prob",
    "moe_permute",
    "moe_unpermute",
    "placement",
    "placement_summary",
    "register",
    "reset_placement",
    "rms_norm",
    "rope",
    "swiglu",
    "unregister",
    "use",
]
