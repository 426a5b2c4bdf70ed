"""`hetero.patch`: walk a model, recognise what hetero has ops for, prove each swap, make it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from hetero.errors import ModelError
from hetero.train.patching import attention
from hetero.train.patching.gated_mlp import GatedMLPs
from hetero.train.patching.kind import Kind, Refused, Swap
from hetero.train.patching.norms import Norms
from hetero.train.patching.report import PatchReport
from hetero.train.patching.residual import Residuals
from hetero.train.patching.rotary import Rotary
from hetero.train.patching.swap import Swapped, restore, swap

# In this order: a decoder layer is swapped only around norms and an MLP that have been.
KINDS: tuple[Kind, ...] = (Norms(), GatedMLPs(), Rotary(), Residuals())


def patch(model: nn.Module) -> PatchReport:
    """Make a Transformers model compute with `hetero.ops`, in place.

    Modules are recognised by structure, not by class: RMSNorm and LayerNorm, gated MLPs, rotary embedding in
    attention, residual add with the norm after it. Before a swap the new forward is compared with the old one
    on small random input, outputs and gradients, in float32 and bf16; where they differ by more than rounding
    the module stays as it is and the report says so. A model whose attention is Transformers' sdpa is set to
    `hetero.ops.attention` where a kernel for it is proven on its device: ``attn_implementation`` is "hetero" then.

    Parameter names, hooks and children do not change. Works before or after PEFT wraps the model, with
    gradient checkpointing, `copy.deepcopy` and `model.to`. Patch before FSDP wraps the model. A second call
    does nothing more; :func:`unpatch` undoes it.

    Raises:
        ModelError: the model's weights are not there to be tried (meta device).
    """
    if any(p.is_meta for p in model.parameters()):
        raise ModelError("cannot patch a model on the meta device: swaps are checked by running them")
    report = PatchReport()
    for kind in KINDS:
        decided: dict[Hashable, Swap | str] = {}
        for module in list(model.modules()):
            if isinstance(module, Swapped) or (key := kind.key(module, model)) is None:
                continue
            if key not in decided:
                decided[key] = _decide(kind, module, model)
            decision = decided[key]
            if isinstance(decision, str):
                report.kept[type(module).__name__, decision] += 1
            else:
                swap(module, decision.mixin, decision.state)
                report.swapped[decision.op] += 1
    attention.exchange(model, report)
    return report


def unpatch(model: nn.Module) -> None:
    """Give every module that :func:`patch` swapped its own forward back.

    Raises:
        ModelError: a module has been wrapped since, by FSDP for example.
    """
    for module in model.modules():
        restore(module)
    attention.restore(model)


@contextmanager
def patched(model: nn.Module) -> Iterator[PatchReport]:
    """:func:`patch` inside the block, :func:`unpatch` after it."""
    report = patch(model)
    try:
        yield report
    finally:
        unpatch(model)


def _decide(kind: Any, module: nn.Module, model: nn.Module) -> Swap | str:
    try:
        return kind.check(module, model)
    except Refused as refusal:
        return str(refusal)
    except Exception as error:  # noqa: BLE001 - the model's code is foreign; what it raised is the reason reported
        return f"trying it raised {type(error).__name__}: {error}"
