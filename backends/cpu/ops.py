"""What the compiled kernels implement. Names targets only: no kernel is imported until one is chosen."""

from __future__ import annotations

import torch

from hetero.backends.cpu import native
from hetero.ops import Impl
from hetero.ops.where import Where

_HERE = "hetero.backends.cpu"
_WHERE = Where(dtypes=frozenset({torch.float32, torch.bfloat16}))
#: op -> (module, has a backward pass)
_OPS = {
    "rms_norm": ("norm", True),
    "fused_add_rms_norm": ("norm", True),
    "layer_norm": ("norm", True),
    "rope": ("rope", True),
    "swiglu": ("glu", True),
    "geglu": ("glu", True),
    "cross_entropy": ("loss", True),
    "fused_linear_cross_entropy": ("linear_loss", True),
    "linear_log_prob": ("linear_loss", True),
    "adamw": ("optim", False),
    "clip_grad_norm": ("optim", False),
}


def impls() -> list[Impl]:
    """One for each op; none, after a warning, when the kernels were not built."""
    kernels = native.load()
    if kernels is None:
        return []
    return [
        Impl(
            op=op,
            name="cpp",
            kind="native",
            where=_WHERE,
            version=kernels.source_hash()[:12],
            forward=f"{_HERE}.{module}:{op}",
            backward=f"{_HERE}.{module}:{op}_backward" if has_backward else None,
        )
        for op, (module, has_backward) in _OPS.items()
    ]
