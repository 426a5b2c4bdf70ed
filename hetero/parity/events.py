"""What is kept of a tensor, and how far apart two tensors are by what was kept of them.

Whole activations would be gigabytes. Kept are projections on random signs, which estimate the distance of two tensors
however large they are: for a difference d and independent signs r, E[(r . d)^2] = |d|^2 (Johnson and Lindenstrauss;
Achlioptas, Database-friendly random projections, 2003). The signs of a projection are the product of one sign a row and
one a column of the tensor folded to rows of ``COLUMNS``, so that they need no memory of the tensor's own size.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

PROJECTIONS = 16
COLUMNS = 4096
#: Elements that are kept as they are, evenly spaced, to be shown.
SAMPLE = 32


@dataclass(frozen=True)
class Event:
    """One result of a run.

    Args:
        step: optimiser step, from 1.
        phase: "inputs", "forward", "backward", "gradients" or "weights".
        module: qualified name of the innermost module it was computed in ("" outside of all); of the parameter for
            gradients and weights.
        op: operator, such as ``hetero.swiglu``; ``output`` of a module.
        nth: which call of this op in this module and phase of the step, from 0.
        part: which of the results of the call.
        shape, dtype: of the tensor.
        norm: its Euclidean norm, of the finite elements.
        infinite: elements that are infinite or NaN.
        projections: ``PROJECTIONS`` numbers, see the module.
        values: of the elements that are kept, which are those of :func:`places`.
        rounding: how far this result moves, relative to its norm, when every weight moves by one rounding.
    """

    step: int
    phase: str
    module: str
    op: str
    nth: int
    part: int
    shape: tuple[int, ...]
    dtype: str
    norm: float
    infinite: int
    projections: tuple[float, ...]
    values: tuple[float, ...]
    rounding: float = 0.0

    @property
    def call(self) -> tuple[int, str, str, str]:
        """Step, phase, module and op."""
        return self.step, self.phase, self.module, self.op

    @property
    def key(self) -> tuple[int, str, str, str, int, int]:
        """What two traces are matched by."""
        return *self.call, self.nth, self.part

    @property
    def exact(self) -> bool:
        """Whether it is of whole numbers or truth values, which are equal or not."""
        return not self.dtype.startswith(("float", "bfloat", "complex"))

    def place(self) -> str:
        """``forward: hetero.swiglu in model.layers.1.mlp, step 1`` and which call, if not the first."""
        where = f" in {self.module}" if self.module else ""
        if self.phase in ("gradients", "weights"):
            return f"{self.phase}: {self.module}, step {self.step}"
        call = f", call {self.nth + 1}" if self.nth else ""
        part = f", result {self.part + 1}" if self.part else ""
        return f"{self.phase}: {self.op}{where}{call}{part}, step {self.step}"


@functools.lru_cache(maxsize=64)
def _signs(rows: int, columns: int, salt: int) -> Tensor:
    generator = torch.Generator().manual_seed(7919 * columns + salt)
    return torch.randint(0, 2, (rows, columns), generator=generator).mul_(2).sub_(1).double()


@torch.no_grad()
def summary(tensor: Tensor) -> dict[str, object]:
    """The fields of :class:`Event` that describe ``tensor``, from ``shape`` to ``values``. Waits for its device."""
    host = tensor.detach().to("cpu").reshape(-1)
    if host.is_complex():
        host = torch.view_as_real(host).reshape(-1)
    numbers = host.double()
    finite = numbers.isfinite()
    clean = torch.where(finite, numbers, 0.0)
    return {
        "shape": tuple(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "norm": float(clean.norm()),
        "infinite": int(len(finite) - finite.sum()),
        "projections": tuple(_projected(clean).tolist()),
        "values": tuple(numbers[places(len(host))].tolist()),
    }


def places(elements: int) -> list[int]:
    """Flat indices of the elements that are kept of a tensor of so many: evenly spaced, first and last among them."""
    kept = min(elements, SAMPLE)
    return [i * (elements - 1) // max(kept - 1, 1) for i in range(kept)]


def _projected(numbers: Tensor) -> Tensor:
    rows = -(-len(numbers) // COLUMNS)
    folded = torch.nn.functional.pad(numbers, (0, rows * COLUMNS - len(numbers))).reshape(rows, COLUMNS)
    across = _signs(PROJECTIONS, rows, 1) @ folded
    return (across * _signs(PROJECTIONS, COLUMNS, 2)).sum(1)


def distance(a: Event, b: Event) -> float:
    """How far ``b`` is from ``a``, relative to the larger norm: 0 where they are equal, infinite where they cannot be.

    Whole numbers are 0 or infinite apart. Infinities and NaN are as many in both, or infinite apart.
    """
    if a.shape != b.shape or a.infinite != b.infinite or a.exact != b.exact:
        return math.inf
    apart = math.sqrt(sum((x - y) ** 2 for x, y in zip(a.projections, b.projections)) / PROJECTIONS)
    if a.exact:
        return math.inf if apart else 0.0
    return apart / max(a.norm, b.norm) if apart else 0.0
