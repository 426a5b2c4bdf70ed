"""From a declaration to a PyTorch operator: ``torch.library`` registration and the autograd function.

``define``/``impl`` under ``CompositeExplicitAutograd`` serve every device key, PrivateUse1 included; autograd
is an outer ``autograd.Function``, which costs about half of ``custom_op.register_autograd``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from hetero.ops import registry
from hetero.ops.select import dispatcher
from hetero.ops.spec import Op, Pass

_LIBRARY = torch.library.Library("hetero", "DEF")


def declare(op: Op) -> Op:
    """Register ``op``'s passes as ``torch.ops.hetero.<name>`` and ``…<name>_backward``; return ``op``."""
    _define(op, op.forward, "forward", op.name)
    if op.backward is not None:
        _define(op, op.backward, "backward", f"{op.name}_backward")
    op.apply = op.forward.overload if op.backward is None else _autograd(op, op.backward)
    registry.add_op(op)
    return op


def _define(op: Op, pass_: Pass, direction: str, name: str) -> None:
    _LIBRARY.define(name + pass_.schema, tags=(torch.Tag.pt2_compliant_tag,))
    overload = getattr(torch.ops.hetero, name).default
    pass_.bind(op, direction, overload)
    _LIBRARY.impl(name, dispatcher(pass_), "CompositeExplicitAutograd")
    torch.library.register_fake(f"hetero::{name}", pass_.fake, lib=_LIBRARY)


def _autograd(op: Op, backward: Pass) -> Any:
    """A differentiable callable over the forward schema's arguments, built from the names alone."""
    forward, public = op.forward, op.public
    sources = (*forward.args, *forward.returns)
    kept = [n for n in backward.args if n in sources]
    kept_at = [sources.index(n) for n in kept]
    is_tensor = [
        "Tensor" in str(a.type)
        for a in (*forward.overload._schema.arguments, *forward.overload._schema.returns)
    ]
    tensors_at = [i for i in kept_at if is_tensor[i]]
    values_at = [i for i in kept_at if not is_tensor[i]]
    # Where each backward argument comes from: (kind, index or indices).
    plan: list[tuple[str, Any]] = []
    for name in backward.args:
        if name.startswith("g_"):
            plan.append(("upstream", forward.returns.index(name[2:])))
        elif name.startswith("need_"):
            plan.append(("need", [forward.args.index(n) for n in op.needs.get(name, (name[5:],))]))
        else:
            at = sources.index(name)
            plan.append(("saved", tensors_at.index(at)) if is_tensor[at] else ("value", values_at.index(at)))
    gradient_at = [backward.returns.index(op.grads[n]) if n in op.grads else None for n in forward.args]
    differentiable = tuple(i for i, g in enumerate(gradient_at) if g is not None)
    constants = [forward.returns.index(n) for n in op.constants]

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            outputs = forward.overload(*args)
            if not isinstance(outputs, (tuple, list)):
                outputs = (outputs,)
            every = (*args, *outputs)
            ctx.save_for_backward(*[every[i] for i in tensors_at])
            ctx.values = tuple(every[i] for i in values_at)
            if constants:
                ctx.mark_non_differentiable(*[outputs[i] for i in constants])
            return outputs[0] if public == 1 else tuple(outputs[:public])

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *upstream: Any) -> Any:
            saved = ctx.saved_tensors
            needs = ctx.needs_input_grad
            args = []
            for kind, at in plan:
                if kind == "saved":
                    args.append(saved[at])
                elif kind == "value":
                    args.append(ctx.values[at])
                elif kind == "upstream":
                    args.append(upstream[at])
                else:
                    args.append(any(needs[i] for i in at))
            outputs = backward.overload(*args)
            if not isinstance(outputs, (tuple, list)):
                outputs = (outputs,)
            return tuple(
                outputs[at] if at is not None and needs[i] else None for i, at in enumerate(gradient_at)
            )

    Function.__name__ = Function.__qualname__ = f"hetero_{op.name}"

    def apply(*args: Any) -> Any:
        if forward_ad._current_level >= 0:  # refuses tangents, which the operators by themselves would lose
            return Function.apply(*args)
        if torch.is_grad_enabled():
            for i in differentiable:
                if args[i] is not None and args[i].requires_grad:
                    return Function.apply(*args)
        outputs = forward.overload(*args)
        if public == 1:
            return outputs[0] if isinstance(outputs, (tuple, list)) else outputs
        return tuple(outputs[:public])

    return apply
