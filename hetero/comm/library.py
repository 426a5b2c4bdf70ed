"""What a collective library can do, and how the rest is emulated. Data, decided before a call.

Three rules cover all libraries:

- Data movement travels as bytes, so every dtype moves everywhere. Where a library does not document a collective
  for bytes, or for a number of ranks, it is made of calls that are: messages, lists instead of one tensor.
- A reduction in a dtype that the library lacks travels in a wider one and is rounded once, or goes over the
  host.
- A collective that the library lacks goes over the host, by gloo.

``avg`` is always sum, then division: gloo in torch 2.6 has none, and HCCL's is not documented. On gloo a
``reduce_scatter`` of min, max or product is an ``all_reduce`` of which each rank keeps its part: torch 2.6
returns the sum there, whatever the op, and says nothing. On gloo, sums and products of 16-bit floats travel
in float32: gloo's own would round after every hop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from hetero.accelerator import CommSpec
from hetero.errors import CommError

OPS = ("sum", "avg", "product", "min", "max")
COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"),
    *("reduce", "gather", "scatter", "send", "recv", "batch_p2p", "barrier"),
)

#: What torch.distributed documents for gloo, and every vendor's library was seen to take.
_COMMON = ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
_HALVES = ("float16", "bfloat16")
#: Wider dtypes that hold a narrow one's values, in order of preference.
_WIDER = {
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), ("float32",)),
    **dict.fromkeys(_HALVES, ("float32",)),
    **dict.fromkeys(("int8", "uint8", "int16", "uint16"), ("int32", "int64")),
    **dict.fromkeys(("int32", "uint32"), ("int64",)),
}
#: The names that CommSpec.unverified uses for point-to-point.
_POINT_TO_POINT = {"isend", "irecv", "send", "recv", "batch_isend_irecv"}


@dataclass(frozen=True)
class Reduction:
    """How one reduction travels: dtype ``wire``, library op ``op``, then division where ``divide``.

    ``host``: over gloo, through host memory. ``why`` is empty where the library does it as it stands.
    """

    wire: torch.dtype
    op: str
    divide: bool = False
    host: bool = False
    why: str = ""


@dataclass(frozen=True)
class Library:
    """A collective library.

    Args:
        backend: its name in torch.distributed.
        name: what lies beneath.
        reduce_dtypes: torch dtype names it reduces.
        missing: collectives that go over the host.
        note: the vendor's limits.
        reduce_except: (op, dtype name) pairs that it does not reduce.
        bytes_as: what bytes travel as.
        by_messages: collectives that are sends and receives.
        lists_at: numbers of ranks at which all_gather and reduce_scatter take a list of tensors.
    """

    backend: str
    name: str
    reduce_dtypes: tuple[str, ...] = _COMMON
    missing: frozenset[str] = frozenset()
    note: str = ""
    reduce_except: frozenset[tuple[str, str]] = frozenset()
    bytes_as: torch.dtype = torch.uint8
    by_messages: frozenset[str] = frozenset()
    lists_at: frozenset[int] = frozenset()

    @classmethod
    def of(cls, spec: CommSpec) -> Library:
        missing = frozenset(spec.unverified) & frozenset(COLLECTIVES)
        if _POINT_TO_POINT & set(spec.unverified):
            missing |= {"send", "recv", "batch_p2p"}
        return cls(
            spec.backend,
            spec.library,
            spec.reduce_dtypes or _COMMON,
            missing,
            spec.note,
            frozenset(spec.reduce_except),
            getattr(torch, spec.bytes_as),
            frozenset(spec.by_messages),
            frozenset(spec.lists_at),
        )

    @property
    def on_host(self) -> bool:
        return self.backend == "gloo"

    def route(self, collective: str) -> tuple[bool, str]:
        """(goes over the host, why) for a collective."""
        if collective in self.missing:
            return True, f"over the host by gloo: {self.name} is not documented to do it"
        if collective in self.by_messages:
            return False, f"{self.name}'s sends and receives: its own is not documented for bytes"
        return False, ""

    def reduces(self, name: str, op: str) -> bool:
        """Whether it reduces a dtype, given by its torch name, with a library op."""
        return name in self.reduce_dtypes and (op, name) not in self.reduce_except

    def reduction(self, dtype: torch.dtype, op: str) -> Reduction:
        """How ``op`` over ``dtype`` travels. Complex dtypes are planned as their real parts.

        Raises:
            CommError: no library can, or the result would not mean anything (the average of integers).
        """
        return _plan(self, dtype, op)

    def explain(self, ranks: int = 0) -> dict[str, str]:
        """For every collective, how it is done, between so many ranks (0: no matter how many)."""
        how = {name: self.route(name)[1] or self.name for name in COLLECTIVES if name != "barrier"}
        how["barrier"] = "gloo, after the device has finished its work"
        if self.on_host:
            how["reduce_scatter"] += "; min, max and product: all_reduce, of which each rank keeps its part"
        for name in ("all_gather", "reduce_scatter") if ranks in self.lists_at else ():
            how[name] += f" with a list of tensors: with one tensor it is not documented for {ranks} ranks"
        how["op=avg"] = "sum, then division by the number of ranks"
        for name in dict.fromkeys((*_COMMON, *_WIDER)):
            dtype = getattr(torch, name, None)
            for op in ("sum", *(op for op, lacking in sorted(self.reduce_except) if lacking == name)):
                if dtype is not None and (why := self.reduction(dtype, op).why):
                    how[f"{op} of {name}"] = why
        return how


HOST = Library("gloo", "gloo")


@cache
def _plan(library: Library, dtype: torch.dtype, op: str) -> Reduction:
    if op not in OPS:
        raise CommError(f"there is no reduction {op!r}; the ops are {', '.join(OPS)}")
    name = str(dtype).removeprefix("torch.")
    divide, native = op == "avg", "sum" if op == "avg" else op
    if divide and not dtype.is_floating_point:
        raise CommError(f"avg of {name} would round: reduce a floating-point tensor, or use sum")
    if dtype == torch.bool:
        if op not in ("min", "max"):
            raise CommError(f"{op} of bool has no meaning: max is 'any', min is 'all'")
        return Reduction(torch.uint8, native, why="as uint8")
    if library.on_host and name in _HALVES and native in ("sum", "product"):
        return Reduction(torch.float32, native, divide, why="in float32, rounded once")
    if library.reduces(name, native):
        return Reduction(dtype, native, divide)
    lacking = f"{native} of {name}" if name in library.reduce_dtypes else name
    for wider in _WIDER.get(name, ()):
        if library.reduces(wider, native):
            rounding = ", rounded once" if dtype.is_floating_point else ""
            why = f"in {wider}{rounding}: {library.name} does not reduce {lacking}"
            return Reduction(getattr(torch, wider), native, divide, why=why)
    if not library.on_host and (name in HOST.reduce_dtypes or name in _WIDER):
        plan = _plan(HOST, dtype, op)
        why = f"over the host by gloo: {library.name} does not reduce {lacking}"
        return Reduction(plan.wire, plan.op, divide, host=True, why=why)
    raise CommError(f"{library.name} cannot reduce {name}, and no wider dtype holds it")
