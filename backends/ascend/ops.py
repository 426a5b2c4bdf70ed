"""What runs on an Ascend NPU: torch_npu's fused operators (``npu``) and our own kernels (``ascendc``). Data only."""

from __future__ import annotations

import torch

from hetero.accelerator.host import Host
from hetero.backends.ascend import npu_attention, npu_loss, npu_moe, npu_optim, npu_rope, vendor
from hetero.backends.ascend.ascendc import ascendc_ops
from hetero.ops import Impl
from hetero.ops.where import Where

_HERE = "hetero.backends.ascend"
_FLOATS = frozenset({torch.float32, torch.bfloat16, torch.float16})
#: Older SoCs take another path with other dtypes; bf16 is what A2 and newer have and they have not.
_A2 = ("bf16",)
#: Changes with the wrappers; a record holds for the torch_npu that it was made with.
_REVISION = 1

#: op -> module, whether it has a backward pass, conditions
_OPS: dict[str, tuple[str, bool, Where]] = {
    "rms_norm": ("npu_norm", True, Where(dtypes=_FLOATS, caps=_A2, installed=vendor.has("npu_rms_norm"))),
    "fused_add_rms_norm": (
        "npu_norm",
        True,
        Where(dtypes=_FLOATS, caps=_A2, installed=vendor.has("npu_add_rms_norm")),
    ),
    "rope": (
        "npu_rope",
        True,
        Where(
            dtypes=_FLOATS,
            caps=_A2,
            last_dim_le=npu_rope.MAX_DIM,
            last_dim_multiple_of=2,
            sizes_le={"batch": npu_rope.MAX_BATCH, "heads": npu_rope.MAX_HEADS},
            installed=vendor.has("npu_rotary_mul", "rotary_mode"),
        ),
    ),
    "swiglu": ("npu_glu", True, Where(dtypes=_FLOATS, caps=_A2, installed=vendor.has("npu_swiglu"))),
    "attention": (
        "npu_attention",
        True,
        Where(
            dtypes=_FLOATS,
            caps=_A2,
            last_dim_le=npu_attention.MAX_DIM,
            sizes_le={"heads": npu_attention.MAX_HEADS},
            installed=vendor.has("npu_fusion_attention", "sparse_mode"),
            also=npu_attention.fits,
        ),
    ),
    "attention_varlen": (
        "npu_attention",
        True,
        Where(
            dtypes=_FLOATS,
            caps=_A2,
            last_dim_le=npu_attention.MAX_DIM,
            sizes_le={"heads": npu_attention.MAX_HEADS},
            # Without this argument the statistics come back in an order of their own.
            installed=vendor.has("npu_fusion_attention", "softmax_layout"),
            also=npu_attention.fits,
        ),
    ),
    "cross_entropy": (
        "npu_loss",
        True,
        Where(
            dtypes=frozenset({torch.float32}),
            caps=_A2,
            installed=vendor.has("npu_cross_entropy_loss", "reduction", "ignore_index"),
            also=npu_loss.plain,
        ),
    ),
    "adamw": (
        "npu_optim",
        False,
        Where(dtypes=_FLOATS, caps=_A2, installed=npu_optim.registered, also=npu_optim.exact),
    ),
    "grouped_matmul": (
        "npu_moe",
        True,
        Where(
            dtypes=_FLOATS,
            caps=_A2,
            last_dim_le=65535,
            sizes_le={"experts": 1024, "out_dim": 65535},
            installed=vendor.has("npu_grouped_matmul", "group_list_type"),
        ),
    ),
    "moe_permute": (
        "npu_moe",
        True,
        Where(dtypes=_FLOATS, caps=_A2, installed=vendor.has("npu_moe_token_permute")),
    ),
    # The gradient is one scatter and one product: plain torch, since the vendor's own differs by version.
    "moe_unpermute": (
        "npu_moe",
        False,
        Where(
            dtypes=_FLOATS, caps=_A2, installed=vendor.has("npu_moe_token_unpermute"), also=npu_moe.same_dtype
        ),
    ),
}


def impls() -> list[Impl]:
    """The vendor's, then ours where they were built."""
    package = Host.here().package("torch_npu", "torch-npu")
    ours = [
        Impl(
            op=op,
            name="npu",
            kind="vendor",
            where=where,
            version=f"{_REVISION}/torch_npu-{package}",
            forward=f"{_HERE}.{module}:{op}",
            backward=f"{_HERE}.{module}:{op}_backward" if has_backward else None,
        )
        for op, (module, has_backward, where) in _OPS.items()
    ]
    return [*ours, *ascendc_ops()]
