"""What an op *is*: its schema, its maths in plain torch, its backward, its cost and its test inputs.

Semantics (here), implementation (:mod:`hetero.ops.impl`) and selection (:mod:`hetero.ops.select`) are three
things. An op is declared once, in its own module; names tie the parts together: an argument of the backward
schema is a forward argument, a forward output, ``g_<output>`` (its upstream gradient) or
``need_<argument>`` (whether that gradient is wanted).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hetero.ops.where import Facts


@dataclass(frozen=True)
class Cost:
    """Work that no implementation can avoid: floating-point operations and bytes read plus written."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Sample:
    """Arguments of one call of the forward schema, for tests, conformance and benchmarks."""

    name: str
    args: tuple[Any, ...]


def _names(arguments: Sequence[Any]) -> tuple[str, ...]:
    return tuple(a.name for a in arguments)


class Pass:
    """One direction of an op: a torch.library operator.

    Args:
        schema: arguments and *named* returns, e.g. ``"(Tensor x, float eps) -> (Tensor y, Tensor rstd)"``.
        reference: the maths in plain torch, for any device; it takes the schema's arguments.
        fake: outputs with the right shape, dtype and device, and no data.
        operands: the tensor arguments that selection looks at; the first one carries the shapes.
        flags: the non-tensor arguments that selection looks at.
        sizes: sizes that selection may ask for: name -> (tensor argument, dimension).
    """

    def __init__(
        self,
        schema: str,
        reference: Callable[..., Any],
        fake: Callable[..., Any],
        *,
        operands: Sequence[str],
        flags: Sequence[str] = (),
        sizes: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        self.schema, self.reference, self.fake = schema, reference, fake
        self.operands, self.flags, self.sizes = tuple(operands), tuple(flags), dict(sizes or {})
        self.direction = ""
        self.overload: Any = None
        #: Whether some implementation asks for more than dtypes; the registry sets it before the first choice.
        self.shapes_matter = False

    def bind(self, op: Op, direction: str, overload: Any) -> None:
        """Attach the registered torch.library operator and work out where each operand stands."""
        self.op, self.direction, self.overload = op, direction, overload
        self.args = _names(overload._schema.arguments)
        self.returns = _names(overload._schema.returns)
        self._at = tuple(self.args.index(n) for n in self.operands)
        self._lists = "List[Tensor]" in str(overload._schema.arguments[self._at[0]].type)
        #: :meth:`key` while shapes do not matter.
        self.dtypes_key = self._make_dtypes_key()

    def key(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What tells this call's choice from another's: it holds only what some implementation asks for."""
        if not self.shapes_matter:
            return self.dtypes_key(args)
        facts = self.facts(args)
        asked = (*facts.flags.values(), *facts.sizes.values())
        return (*self.dtypes_key(args), facts.last_dim, facts.contiguous, *asked)

    def _make_dtypes_key(self) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """Device and dtypes of the operands. This runs on every call, so each number of operands has its own.

        The index tells the device: a process has one accelerator, and the CPU's is -1.
        """
        if self._lists or len(self._at) > 3:
            return lambda args: (self, (f := self.facts(args)).device, *f.dtypes)
        i, j, k = (*self._at, *self._at[-1:] * 2)[:3]

        def one(args: tuple[Any, ...]) -> tuple[Any, ...]:
            a = args[i]
            return (self, a.get_device(), a.dtype)

        def two(args: tuple[Any, ...]) -> tuple[Any, ...]:
            a, b = args[i], args[j]
            return (self, a.get_device(), a.dtype, None if b is None else b.dtype)

        def three(args: tuple[Any, ...]) -> tuple[Any, ...]:
            a, b, c = args[i], args[j], args[k]
            return (
                self,
                a.get_device(),
                a.dtype,
                None if b is None else b.dtype,
                None if c is None else c.dtype,
            )

        return (one, two, three)[len(self._at) - 1]

    def facts(self, args: tuple[Any, ...]) -> Facts:
        """Everything that a ``Where`` may ask about a call."""
        operands = [args[i] for i in self._at]
        if self._lists:
            operands = [t[0] if t else None for t in operands]
        first = operands[0]
        return Facts(
            op=self.op.name,
            device=first.device,
            dtypes=tuple(None if t is None else t.dtype for t in operands),
            last_dim=first.shape[-1] if first.dim() else 1,
            contiguous=first.is_contiguous(),
            flags={n: args[self.args.index(n)] for n in self.flags},
            sizes={n: args[self.args.index(a)].shape[dim] for n, (a, dim) in self.sizes.items()},
        )

    def __call__(self, *args: Any) -> Any:
        return self.overload(*args)

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.direction}>"


@dataclass(eq=False)
class Op:
    """A declared op. ``hetero.ops.library.declare`` registers it; see ``docs/adding_an_op.md``.

    Args:
        name: the public name.
        forward, backward: its passes; ``backward=None`` for ops without a gradient or with ``rotates``.
        grads: forward argument -> name of the backward output that is its gradient.
        needs: ``need_…`` argument -> the forward arguments it stands for, where the name alone does not say it.
        public: how many of the forward outputs callers see; the rest are kept for the backward pass.
        constants: public outputs that no gradient flows through (a log-sum-exp, indices).
        prepare: the public function's arguments -> the forward schema's arguments (checks included).
        samples: ``(device, dtype, generator) -> samples``: odd sizes, empty, huge values, masked rows.
        cost: forward arguments -> cost of the forward pass; ``backward_cost`` likewise.
        tolerance: k in "error at most k times plain torch's own error in that dtype".
        note: the maths and its source, shown in the docs.
    """

    name: str
    forward: Pass
    backward: Pass | None
    prepare: Callable[..., tuple[Any, ...]]
    samples: Callable[[torch.device, torch.dtype, torch.Generator], Iterable[Sample]]
    cost: Callable[..., Cost]
    backward_cost: Callable[..., Cost] | None = None
    grads: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    public: int = 1
    constants: tuple[str, ...] = ()
    tolerance: float = 4.0
    note: str = ""
    apply: Callable[..., Any] = field(init=False, repr=False)

    def passes(self) -> tuple[Pass, ...]:
        """The forward pass and, where there is one, the backward pass."""
        return (self.forward,) if self.backward is None else (self.forward, self.backward)

    def backward_args(
        self, args: tuple[Any, ...], outputs: Sequence[Tensor], upstream: Sequence[Tensor]
    ) -> tuple[Any, ...]:
        """Arguments of the backward pass from a forward call; every ``need_…`` is True."""
        assert self.backward is not None
        known: dict[str, Any] = dict(zip(self.forward.args, args))
        known.update(zip(self.forward.returns, outputs))
        known.update({f"g_{n}": g for n, g in zip(self.forward.returns, upstream)})
        return tuple(True if n.startswith("need_") else known[n] for n in self.backward.args)
