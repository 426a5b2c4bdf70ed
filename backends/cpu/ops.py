"""What the compiled kernels and torch's own flash attention implement. Names targets only: no kernel is imported until
one is chosen.
"""

from __future__ import annotations

import torch

from hetero.backends.cpu import attention, native
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
_ATTENTION = Where(
    dtypes=frozenset({torch.float32, torch.bfloat16, torch.float16}),
    flags={"softcap": {0.0}},
    also=attention.fits,
)


def impls() -> list[Impl]:
    """One for each op; those of the kernels are left out, after a warning, when these were not built."""
    return [*_attention(), *_compiled()]


def _attention() -> list[Impl]:
    return [
        Impl(
            op=op,
            name="sdpa",
            kind="vendor",
            where=_ATTENTION,
            version=f"{attention.REVISION}+torch{torch.__version__.partition('+')[0]}",
            forward=f"{_HERE}.attention:{op}",
            backward=f"{_HERE}.attention:{op}_backward",
        )
        for op in ("attention", "attention_varlen")
    ]


def _compiled() -> list[Impl]:
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
