"""Expressions of torch's public API, each with the aclnn operators that it must have run, on many shapes and dtypes.

A row of a table is ``operators | dtypes | expression``: names without ``aclnn``; ``F`` for float32, bfloat16 and
float16, ``f`` for float32, ``I`` for int64 and int32, ``L`` for int64, ``B`` for bool; and Python in which stand for
tensors of one shape and dtype: ``a b`` any numbers (``b`` is not zero), ``p`` positive, ``u`` within (-1, 1), ``n``
from 1 to 3; ``m`` a bool mask; ``c`` like ``b``, to be broadcast; ``z`` one number without dimensions.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tests.emulators.opapi.against_cpu import agree

KINDS = {
    "F": (torch.float32, torch.bfloat16, torch.float16),
    "f": (torch.float32,),
    "I": (torch.int64, torch.int32),
    "L": (torch.int64,),
    "B": (torch.bool,),
}
NAMES = re.compile(r"(?<![\w.])[abpunmcz](?![\w(=])")
INPLACE = re.compile(r"\w_\(|out=")


@dataclass(frozen=True)
class Row:
    """See the module."""

    operators: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    expression: str

    def __str__(self) -> str:
        return self.expression.replace(" ", "")


def rows(text: str) -> list[Row]:
    """The rows of a table; a line that starts with # is none."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            continue
        operators, kinds, expression = (part.strip() for part in line.split("|", 2))
        dtypes = tuple(dtype for kind in kinds for dtype in KINDS[kind])
        found.append(Row(tuple("aclnn" + name for name in operators.split()), dtypes, expression))
    return found


def check(row: Row) -> None:
    """The row agrees with the CPU in every dtype and shape that the CPU has it for, and ran its operators."""
    before = ran()
    code = compile(row.expression, row.expression, "eval")
    names = sorted(set(NAMES.findall(row.expression)))
    for dtype in row.dtypes:
        for shape, layout in (("dense", 0), ("strided", 1), ("empty", 0), ("one", 0)):
            tensors = {name: _input(name, shape, layout, dtype) for name in names}
            try:
                _evaluate(code, {k: v.clone() for k, v in tensors.items()})
            except (RuntimeError, IndexError, ValueError) as error:
                if shape in ("dense", "strided"):
                    raise AssertionError(
                        f"{row.expression} in {dtype}: the CPU has it not: {error}"
                    ) from error
                continue
            if not INPLACE.search(row.expression):
                tensors = {k: v.requires_grad_(v.is_floating_point()) for k, v in tensors.items()}
            try:
                agree(lambda given: _evaluate(code, given), tensors)
            except Exception as error:
                raise AssertionError(f"{row.expression} in {dtype}, {shape}: {error}") from error
    after = ran()
    idle = [name for name in row.operators if after.get(name, 0) == before.get(name, 0)]
    assert not idle, f"{row.expression} did not run {', '.join(idle)}, but {', '.join(_more(before, after))}"


def ran() -> dict[str, int]:
    """How often this process ran each operator."""
    torch.npu.synchronize()
    library = ctypes.CDLL("libopapi.so")
    library.hetero_cann_ran.restype = ctypes.c_char_p
    return {
        name: int(times)
        for name, times in (line.split() for line in library.hetero_cann_ran().decode().splitlines())
    }


def _more(before: dict[str, int], after: dict[str, int]) -> Iterator[str]:
    return (name for name, times in after.items() if times > before.get(name, 0))


def _evaluate(code: Any, tensors: dict[str, torch.Tensor]) -> Any:
    return eval(code, {"torch": torch, "F": torch.nn.functional, **tensors})


def _input(name: str, shape: str, layout: int, dtype: torch.dtype) -> torch.Tensor:
    size = {"dense": (3, 4), "strided": (3, 4), "empty": (0, 4), "one": ()}[shape]
    if name == "c" and size:
        size = (1, 4) if layout else (4,)
    if name == "z":
        size = ()
    draw = torch.Generator().manual_seed(ord(name))
    if name == "m":
        dtype = torch.bool
    if dtype == torch.bool:
        made = torch.rand(size, generator=draw) < 0.5
    elif not dtype.is_floating_point:
        made = torch.randint(1, 4 if name == "n" else 6, size, generator=draw)
        if name in "au":
            made = made * (1 - 2 * torch.randint(0, 2, size, generator=draw))
    elif name == "n":
        made = torch.randint(1, 4, size, generator=draw)
    else:
        made = (
            torch.rand(size, generator=draw) * 1.8 - 0.9
            if name == "u"
            else torch.randn(size, generator=draw) * 1.5
        )
        if name in "bcpz":
            made = made.abs() + 0.2 if name == "p" else made.sign() * (made.abs() + 0.2)
    made = made.to(dtype)
    return made.t().contiguous().t() if layout and made.dim() == 2 else made
