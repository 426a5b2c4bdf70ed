"""What ranks give in the checks, and what has to come of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.emulators.hccl.device import DTYPES, Comm, HcclError, from_bfloat16, to_bfloat16

#: None; one; odd; what every rank reduces whole (16 KiB) and what they share; longer than two slots (1 MiB).
SIZES = (0, 1, 7, 1027, 4096, 4097, 600_001)
REDUCIBLE = ("int8", "int16", "int32", "int64", "float16", "float32", "bfloat16")
REFUSED = {("int16", "prod"), ("bfloat16", "prod")}


def value(rank: int, size: int, dtype: str, salt: int = 0) -> np.ndarray:
    """What ``rank`` gives, known to every rank."""
    random = np.random.default_rng([salt, rank])
    if dtype == "bfloat16":
        return to_bfloat16(random.standard_normal(size))
    kind = DTYPES[dtype][1]
    if np.issubdtype(kind, np.floating):
        return random.standard_normal(size).astype(kind)
    return random.integers(0, 100, size).astype(kind)


def expected(parts: list[np.ndarray], dtype: str, op: str) -> np.ndarray:
    """In rank order; halves in float32 and rounded once; the dtype's own wrap-around."""
    wide = [from_bfloat16(p) if dtype == "bfloat16" else p for p in parts]
    if dtype == "float16":
        wide = [p.astype(np.float32) for p in wide]
    fold = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    total = wide[0]
    with np.errstate(all="ignore"):
        for part in wide[1:]:
            total = fold(total, part)
        if dtype == "bfloat16":
            return to_bfloat16(total)
        return total.astype(parts[0].dtype)


def same(ours: np.ndarray, want: np.ndarray) -> None:
    assert ours.dtype == want.dtype and ours.shape == want.shape
    assert ours.tobytes() == want.tobytes(), (ours, want)


def values(comm: Comm, size: int, dtype: str, salt: int = 0) -> list[np.ndarray]:
    return [value(rank, size, dtype, salt) for rank in range(comm.size)]


def refused(code: int, text: str, run: Callable[[], object]) -> None:
    try:
        run()
    except HcclError as error:
        assert error.code == code and text in str(error), error
    else:
        raise AssertionError(f"nothing was raised; expected {code}: {text}")
