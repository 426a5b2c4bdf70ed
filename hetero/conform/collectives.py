"""Level 3: every collective of the communicator, on several ranks, against what each rank computes for itself.

A rank's values are drawn from its number, so every rank knows what all others gave, and the right result in float64.
Movement must give the same bits. A sum over n ranks in a dtype with unit roundoff u may be off, in any order, by
(n - 1) u sum|x|, and by one rounding of the result more (Higham, Accuracy and Stability of Numerical Algorithms,
section 4.2); a product by n u |result|. Minima, maxima and integers are exact.

What the communicator refuses for a dtype, and what the device is declared not to have, is skipped with the reason; a
refusal that does not come is a failure. A collective that the library lacks runs as the communicator makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

import hetero
from hetero.accelerator import Device
from hetero.comm import CollectiveMismatch, Communicator, Recv, Send
from hetero.comm.library import OPS
from hetero.conform.case import Case
from hetero.conform.ranks import RanksFailed, launch
from hetero.errors import CommError
from hetero.ops.where import dtype_name

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
OTHERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64)
#: Odd sizes, empty ones, a scalar; more than a page.
SHAPES: tuple[tuple[int, ...], ...] = ((3, 5), (), (1,), (7,), (0,), (2, 0, 3), (1027,))
_NEEDS = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64", torch.complex64: "fp64"}
SHORT = (torch.float32, torch.bfloat16, torch.int64)


def run(device: Device, *, short: bool = False, seed: int = 0, timeout: float = 600.0) -> list[Case]:
    """The cases of jobs of 2, 3 and 4 ranks on ``device``'s vendor; short: of 2, with three dtypes."""
    found: list[Case] = []
    for ranks in (2,) if short else (2, 3, 4):
        visible = device.backend.device_count()
        if device.type != "cpu" and visible < ranks:
            why = f"{ranks} ranks need {ranks} devices, {visible} visible"
            found.append(Case("collectives", _library(device), "ranks", "any", f"{ranks} ranks", skipped=why))
            continue
        try:
            every = launch(f"{__name__}:of_rank", ranks, [device.vendor, short, seed], timeout)
        except RanksFailed as error:
            found.append(
                Case("collectives", _library(device), "ranks", "any", f"{ranks} ranks", problem=str(error))
            )
            continue
        found += joined([[Case(**row) for row in rows] for rows in every])
    return found


def of_rank(vendor: str, short: bool, seed: int) -> list[dict[str, Any]]:
    """What one rank of the job has to say."""
    with hetero.comm.init(vendor) as comm:
        return [asdict(case) for case in cases(comm, short=short, seed=seed)]


def joined(every: Sequence[Sequence[Case]]) -> list[Case]:
    """One list of what all ranks found: a case is as bad as on its worst rank, which is named."""
    by_rank = [{(c.op, c.dtype, c.sample): c for c in rows} for rows in every]
    found = []
    for key in dict.fromkeys(key for rows in by_rank for key in rows):
        worst = None
        for rank, rows in enumerate(by_rank):
            case = rows.get(key)
            if case is None:  # not a member of that group
                continue
            if case.failed:
                case = replace(case, problem=f"rank {rank}: {case.problem}")
            order = ("skip", "pass", "fail").index(case.status), case.ratio
            if worst is None or order > worst[0]:
                worst = order, case
        assert worst is not None
        found.append(worst[1])
    return found


def cases(comm: Communicator, *, short: bool = False, seed: int = 0) -> list[Case]:
    """Every case that ``comm`` declares; every rank of the job calls it alike."""
    found = []
    for layout, group in _groups(comm, short):
        if group is None:
            continue
        for dtype in SHORT if short else (*FLOATS, *OTHERS):
            found += list(_of_dtype(group, layout, dtype, short, seed))
        found.append(_mismatch(group, layout))
    return found


def _groups(comm: Communicator, short: bool) -> Iterator[tuple[str, Communicator | None]]:
    """All ranks; two that are not neighbours; one alone; the lower and the upper half at the same time."""
    n = comm.world_size
    yield f"{n} ranks", comm
    if short:
        return
    if n == 3:
        yield "ranks 0 and 2 of 3", comm.subgroup([0, 2])
        yield "rank 1 of 3 alone", comm.subgroup([1])
    if n == 4:
        halves = [comm.subgroup(list(part)) for part in ((0, 1), (2, 3))]
        yield "each half of 4", next(group for group in halves if group is not None)


def _of_dtype(comm: Communicator, layout: str, dtype: torch.dtype, short: bool, seed: int) -> Iterator[Case]:
    name, library = dtype_name(dtype), comm.job.library
    cap = getattr(comm.device.caps, _NEEDS[dtype]) if dtype in _NEEDS else None
    lacks = f"no {_NEEDS[dtype]}: {cap.why}" if cap is not None and cap.state == "no" else ""
    every = dtype in (torch.float32, torch.bfloat16) and not short
    for call in CALLS:
        for op in OPS if call.reduces else ("",):
            label = f"{call.name} {op}".strip()
            for shape in SHAPES if every else SHAPES[:1]:
                case = Case(
                    label, library.name, "ranks", name, f"{'x'.join(map(str, shape)) or 'scalar'}, {layout}"
                )
                if lacks:
                    yield replace(case, skipped=lacks)
                    continue
                yield _one(comm, call, case, _Inputs(comm, shape, dtype, op, seed))


@dataclass
class _Inputs:
    """What the ranks of ``comm`` put in, known to each of them."""

    comm: Communicator
    shape: tuple[int, ...]
    dtype: torch.dtype
    op: str
    seed: int

    def values(self, salt: int = 0) -> list[Tensor]:
        """Each rank's tensor, on the CPU."""
        return [self._draw(rank, salt) for rank in range(self.comm.world_size)]

    def mine(self, salt: int = 0) -> Tensor:
        """This rank's tensor, on the device, in memory that is not contiguous where the shape allows that."""
        value = self._draw(self.comm.rank, salt)
        if value.dim() < 2:
            return value.to(self.comm.device.torch)
        return value.mT.contiguous().to(self.comm.device.torch).mT

    def _draw(self, rank: int, salt: int) -> Tensor:
        generator = torch.Generator().manual_seed((self.seed * 1000 + salt) * 1000 + rank)
        if self.dtype.is_floating_point or self.dtype.is_complex:
            wide = torch.complex128 if self.dtype.is_complex else torch.float64
            return torch.randn(self.shape, generator=generator, dtype=wide).to(self.dtype)
        return torch.randint(0, 4, self.shape, generator=generator).to(self.dtype)


#: (what came, what is right, the largest error allowed for each value; None: the same bits)
Pairs = Iterator[tuple[Tensor, Tensor, Tensor | None]]


@dataclass(frozen=True)
class Call:
    """A collective, as a function of the communicator and the inputs that gives pairs to compare."""

    name: str
    pairs: Callable[[Communicator, _Inputs], Pairs]
    reduces: bool = False


def _one(comm: Communicator, call: Call, case: Case, inputs: _Inputs) -> Case:
    refusal = _refusal(comm, inputs) if call.reduces else ""
    try:
        ratios = [_ratio(*pair) for pair in call.pairs(comm, inputs)]
    except CommError as error:
        return replace(case, skipped=refusal) if refusal else replace(case, problem=str(error))
    except (ValueError, RuntimeError, TypeError, NotImplementedError) as error:
        return replace(case, problem=f"{type(error).__name__}: {error}")
    if refusal:
        return replace(case, problem=f"ran, though it is declared as refused: {refusal}")
    worst = max(ratios, default=0.0)
    return replace(
        case, ratio=worst, problem="" if worst <= 1 else f"error {worst:.3g} times what is allowed"
    )


def _refusal(comm: Communicator, inputs: _Inputs) -> str:
    """Why the communicator says that it will not do this reduction; empty where it will."""
    if inputs.dtype.is_complex and inputs.op not in ("sum", "avg"):
        return f"{inputs.op} of complex numbers has no meaning by parts"
    dtype = torch.float32 if inputs.dtype.is_complex else inputs.dtype
    try:
        comm.job.library.reduction(dtype, inputs.op)
    except CommError as error:
        return str(error)
    return ""


def _ratio(got: Tensor, want: Tensor, allowed: Tensor | None) -> float:
    if got.dtype != want.dtype or got.shape != want.shape:
        raise ValueError(f"gave {got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}")
    got = got.cpu()
    if allowed is None:
        return 0.0 if got.equal(want) else float("inf")
    if not got.numel():
        return 0.0
    wide = torch.complex128 if got.is_complex() else torch.float64
    error = (got.to(wide) - want.to(wide)).abs()
    ratio = torch.where(error == 0, torch.zeros(()), error / allowed)
    return float(torch.nan_to_num(ratio, nan=float("inf")).max())


def reduced(parts: list[Tensor], op: str) -> tuple[Tensor, Tensor | None]:
    """The reduction in float64, rounded once, and the error that any order of it may have."""
    dtype, n, whole = parts[0].dtype, len(parts), torch.stack(parts)
    if not (dtype.is_floating_point or dtype.is_complex):
        wide = whole.to(torch.int64)
        folded = {"sum": wide.sum(0), "avg": wide.sum(0) // n, "product": wide.prod(0)} if op not in (
            "min", "max"
        ) else {"min": wide.amin(0), "max": wide.amax(0)}  # fmt: skip
        return folded[op].to(dtype), None
    wide = whole.to(torch.complex128 if dtype.is_complex else torch.float64)
    if op in ("min", "max"):
        return (wide.real.amin(0) if op == "min" else wide.real.amax(0)).to(dtype), None
    unit = torch.finfo(dtype).eps / 2
    if op == "product":
        exact = wide.prod(0)
        bound = n * unit * exact.abs()
    else:
        exact = wide.sum(0)
        bound = (n - 1) * unit * wide.abs().sum(0) + unit * exact.abs()
        if op == "avg":
            exact, bound = exact / n, 2 * bound / n
    return exact.to(dtype), 2 * bound + torch.finfo(dtype).tiny


# -- the collectives
def _all_reduce(c: Communicator, x: _Inputs) -> Pairs:
    yield c.all_reduce(x.mine(), x.op), *reduced(x.values(), x.op)


def _reduce(c: Communicator, x: _Inputs) -> Pairs:
    for root in range(c.world_size):
        t = x.mine(root)
        c.reduce(t, root, x.op)
        if c.rank == root:
            yield t, *reduced(x.values(root), x.op)
        else:
            yield t, x.values(root)[c.rank], None


def _reduce_scatter(c: Communicator, x: _Inputs) -> Pairs:
    parts = [x.mine(salt) for salt in range(c.world_size)]
    yield c.reduce_scatter(parts, x.op), *reduced(x.values(c.rank), x.op)


def _broadcast(c: Communicator, x: _Inputs) -> Pairs:
    for root in range(c.world_size):
        yield c.broadcast(x.mine(), root), x.values()[root], None


def _all_gather(c: Communicator, x: _Inputs) -> Pairs:
    for got, want in zip(c.all_gather(x.mine()), x.values(), strict=True):
        yield got, want, None


def _gather(c: Communicator, x: _Inputs) -> Pairs:
    for root in range(c.world_size):
        got = c.gather(x.mine(), root)
        if (got is not None) != (c.rank == root):
            raise ValueError(f"gather to rank {root} gave rank {c.rank} {type(got).__name__}")
        for have, want in zip(got or [], x.values()):
            yield have, want, None


def _scatter(c: Communicator, x: _Inputs) -> Pairs:
    for root in range(c.world_size):
        every = [t.to(c.device.torch) for t in x.values(root)]
        out = torch.empty_like(x.mine())
        yield c.scatter(out, every if c.rank == root else None, root), x.values(root)[c.rank], None


def _all_to_all(c: Communicator, x: _Inputs) -> Pairs:
    got = c.all_to_all([x.mine(salt) for salt in range(c.world_size)])
    for have, want in zip(got, x.values(c.rank), strict=True):
        yield have, want, None


def _send_recv(c: Communicator, x: _Inputs) -> Pairs:
    """Round a ring, one rank after the other."""
    n, me = c.world_size, c.rank
    if n == 1:
        return
    got = torch.empty_like(x.mine())
    if me == 0:
        c.send(x.mine(), 1)
        c.recv(got, n - 1)
    else:
        c.recv(got, me - 1)
        c.send(x.mine(), (me + 1) % n)
    yield got, x.values()[(me - 1) % n], None


def _batch(c: Communicator, x: _Inputs) -> Pairs:
    """Both ways between neighbours, all at once."""
    n, me = c.world_size, c.rank
    if n == 1:
        return
    left, right = torch.empty_like(x.mine()), torch.empty_like(x.mine())
    before, after = (me - 1) % n, (me + 1) % n
    c.batch_p2p([Send(x.mine(0), after), Recv(left, before), Send(x.mine(1), before), Recv(right, after)])
    yield left, x.values(0)[before], None
    yield right, x.values(1)[after], None


CALLS = (
    Call("all_reduce", _all_reduce, reduces=True),
    Call("reduce", _reduce, reduces=True),
    Call("reduce_scatter", _reduce_scatter, reduces=True),
    Call("broadcast", _broadcast),
    Call("all_gather", _all_gather),
    Call("gather", _gather),
    Call("scatter", _scatter),
    Call("all_to_all", _all_to_all),
    Call("send, recv", _send_recv),
    Call("batch_p2p", _batch),
)


def _mismatch(comm: Communicator, layout: str) -> Case:
    """Ranks that call with different shapes are all told so, nothing is sent, and the next call works."""
    case = Case("mismatch", comm.job.library.name, "ranks", "float32", layout)
    if comm.world_size == 1:
        return replace(case, skipped="one rank agrees with itself")
    try:
        comm.all_reduce(torch.ones(2 + comm.rank, device=comm.device.torch))
        return replace(case, problem="ranks that gave different shapes were not told")
    except CollectiveMismatch:
        pass
    total = comm.all_reduce(torch.ones(1, device=comm.device.torch)).item()
    return case if total == comm.world_size else replace(case, problem=f"afterwards, a sum was {total}")


def _library(device: Device) -> str:
    spec = device.backend.comm()
    return spec.library if spec is not None else "gloo"
