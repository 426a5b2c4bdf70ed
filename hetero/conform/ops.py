"""Levels 1 and 2: every implementation of every op against the maths in float64.

Tolerance is derived, not guessed. An output's largest error may be ``k`` (``Op.tolerance``) times plain torch's own
largest error on the same inputs in the same dtype. That own error is counted as at least half a unit in the last place
of the largest value (of the inputs, where the exact result is zero throughout), and at least what the exact result
moves by when the inputs move by one float32 rounding: no float32 maths can see that, and it matters where values
cancel. Where plain torch overflows or is not a number, the implementation must be too. Plain torch runs on the CPU
whatever the device: a device whose own plain operators are wrong, or that computes float64 as something else, is found
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hetero.accelerator import Device
from hetero.conform.case import Case
from hetero.ops import registry
from hetero.ops.impl import Impl
from hetero.ops.spec import Op, Pass
from hetero.ops.where import dtype_name

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def cases(op: Op, impl: Impl, device: Device, dtype: torch.dtype, seed: int = 0) -> list[Case]:
    """Run every sample of ``op`` through ``impl`` in both directions; what its ``Where`` refuses is skipped."""
    found: list[Case] = []
    generator = torch.Generator().manual_seed(seed)
    for sample in op.samples(device.torch, dtype, generator):
        plain = _results(op.forward, op.forward.reference, _on_cpu(list(sample.args)))
        steps: list[tuple[Pass, tuple[Any, ...]]] = [(op.forward, sample.args)]
        if op.backward is not None:
            upstream = [
                torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype)
                for t in plain[: op.public]
            ]
            saved = [t.to(device.torch) for t in plain]
            upstream = [t.to(device.torch) for t in upstream]
            steps.append((op.backward, op.backward_args(sample.args, saved, upstream)))
        for pass_, args in steps:
            facts = pass_.facts(args)
            if impl.target(pass_.direction) is None:
                continue
            case = Case(op.name, impl.name, pass_.direction, dtype_name(dtype), sample.name)
            if why := impl.where.why_not(facts, device):
                found.append(replace(case, skipped=why))
                continue
            try:
                ratio, problem = _compare(op, pass_, impl.load(pass_.direction), args)
            except Exception as error:  # noqa: BLE001 - a kernel that raises has failed its case; the rest still run
                ratio, problem = float("inf"), f"{type(error).__name__}: {error}"
            found.append(replace(case, ratio=ratio, problem=problem))
    return found


def run(device: Device, names: Iterable[str] | None = None, seed: int = 0) -> list[Case]:
    """:func:`cases` for every implementation that ``device``'s backend brings, in float32, bfloat16 and float16."""
    found: list[Case] = []
    for name in names or registry.ops():
        for impl in registry.impls(name):
            if impl.vendor == device.vendor:
                for dtype in DTYPES:
                    found += cases(registry.op(name), impl, device, dtype, seed)
    return found


def _copied(value: Any) -> Any:
    """A copy to be written to, laid out as ``value`` is."""
    if isinstance(value, Tensor):
        return value.clone() if value.is_contiguous() else _same_strides(value)
    return [_copied(v) for v in value] if isinstance(value, list) else value


def _on_cpu(value: Any) -> Any:
    """A copy to be written to, on the CPU."""
    if isinstance(value, Tensor):
        return _copied(value) if value.is_cpu else value.cpu()
    return [_on_cpu(v) for v in value] if isinstance(value, list) else value


def _widened(value: Any, generator: torch.Generator | None = None) -> Any:
    """A float64 copy of floating tensors; with a generator, each value moved by one float32 rounding up or down."""
    if isinstance(value, Tensor) and value.is_floating_point():
        wide = value.cpu().double()
        if generator is not None:
            signs = torch.randint(0, 2, value.shape, generator=generator) * 2 - 1
            wide = wide * (1 + torch.finfo(torch.float32).eps * signs)
        return wide
    return [_widened(v, generator) for v in value] if isinstance(value, list) else _on_cpu(value)


def _unseen(pass_: Pass, args: tuple[Any, ...], exact: Sequence[Tensor]) -> list[Tensor]:
    """How far each output moves when the inputs move by one rounding: the most of several draws.

    With few elements one draw says little, and drawing is cheap; with many, one draw has most cases in it.
    """
    generator = torch.Generator().manual_seed(0)
    draws = max(2, min(16, 8192 // max(1, sum(t.numel() for t in exact))))
    most = [torch.zeros_like(e) for e in exact]
    for _ in range(draws):
        moved = _results(pass_, pass_.reference, _widened(list(args), generator))
        most = [
            torch.maximum(a, torch.nan_to_num((m - e).abs(), 0.0, 0.0)) for a, m, e in zip(most, moved, exact)
        ]
    return most


def _same_strides(x: Tensor) -> Tensor:
    """A copy with the same strides: a view of a copied buffer."""
    size = sum((n - 1) * s for n, s in zip(x.shape, x.stride())) + 1 if x.numel() else 0
    return x.new_zeros(size).as_strided(x.shape, x.stride()).copy_(x)


def _results(pass_: Pass, fn: Any, args: Sequence[Any]) -> list[Tensor]:
    """Outputs of ``fn(*args)``, then the arguments that the schema says it writes to."""
    out = fn(*args)
    outputs = [] if out is None else list(out) if isinstance(out, (tuple, list)) else [out]
    for argument, value in zip(pass_.overload._schema.arguments, args):
        if argument.alias_info is not None and argument.alias_info.is_write:
            outputs += value
    return outputs


def _largest(args: tuple[Any, ...]) -> Tensor:
    """Largest finite magnitude among the floating arguments: the scale of what cancelled to exactly zero."""
    floats = [a for a in args if isinstance(a, Tensor) and a.is_floating_point() and a.numel()]
    sizes = [torch.nan_to_num(a.cpu().double().abs(), nan=0.0, posinf=0.0).max() for a in floats]
    return torch.stack(sizes).max() if sizes else torch.zeros((), dtype=torch.float64)


def _compare(op: Op, pass_: Pass, fn: Any, args: tuple[Any, ...]) -> tuple[float, str]:
    exact = _results(pass_, pass_.reference, _widened(list(args)))
    unseen = _unseen(pass_, args, exact)
    plain = _results(pass_, pass_.reference, _on_cpu(list(args)))
    got = _results(pass_, fn, _copied(list(args)))
    names = (*pass_.returns, *("written" for _ in got[len(pass_.returns) :]))
    if len(got) != len(plain):
        return float("inf"), f"{len(got)} outputs, expected {len(plain)}"
    worst = 0.0
    for name, e, u, p, g in zip(names, exact, unseen, plain, got):
        if g.shape != p.shape or g.dtype != p.dtype:
            return float("inf"), f"{name} is {g.dtype} {tuple(g.shape)}, expected {p.dtype} {tuple(p.shape)}"
        if not p.numel():
            continue
        g = g.cpu()
        if not p.is_floating_point():
            if not torch.equal(p, g):
                return float("inf"), f"{name} differs in {int((p != g).sum())} of {p.numel()} values"
            continue
        finite = torch.isfinite(p) & torch.isfinite(e)
        if not torch.equal(torch.nan_to_num(p[~finite], nan=7.0), torch.nan_to_num(g[~finite], nan=7.0)):
            return float("inf"), f"{name} differs from plain torch where that is not finite"
        if not finite.any():
            continue
        dtype, e, u, p, g = p.dtype, e[finite], u[finite], p[finite].double(), g[finite].double()
        if not torch.isfinite(g).all():
            return float("inf"), f"{name} is not finite where plain torch is"
        largest = e.abs().max() or _largest(args)
        own = torch.stack([(p - e).abs().max(), torch.finfo(dtype).eps / 2 * largest, u.max()]).max()
        allowed = op.tolerance * own
        error = (g - e).abs().max()
        ratio = float(error / allowed) if allowed > 0 else (0.0 if error == 0 else float("inf"))
        worst = max(worst, ratio)
        if ratio > 1:
            return worst, f"{name}: error {float(error):.3g}, allowed {float(allowed):.3g}"
    return worst, ""
