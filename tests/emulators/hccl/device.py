"""One rank of emulated HCCL, driven through its C interface: memory, a stream, a communicator, the calls. No torch."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT_INFO_BYTES = 4108
SUM, PROD, MAX, MIN = 0, 1, 2, 3
OPS = {"sum": SUM, "prod": PROD, "max": MAX, "min": MIN}
#: Name to HCCL's code and what holds it here; bfloat16 as its bits.
DTYPES: dict[str, tuple[int, Any]] = {
    "int8": (0, np.int8),
    "int16": (1, np.int16),
    "int32": (2, np.int32),
    "float16": (3, np.float16),
    "float32": (4, np.float32),
    "int64": (5, np.int64),
    "uint64": (6, np.uint64),
    "uint8": (7, np.uint8),
    "uint16": (8, np.uint16),
    "uint32": (9, np.uint32),
    "float64": (10, np.float64),
    "bfloat16": (11, np.uint16),
}


class _Library:
    """Loaded when it is first used: the test process itself names the functions of this package only."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Any:
        loaded = ctypes.CDLL(self._name)
        found = getattr(loaded, function)
        if function in ("aclGetRecentErrMsg", "HcclGetErrorString"):
            found.restype = ctypes.c_char_p
        setattr(self, function, found)
        return found


acl, hccl = _Library("libascendcl.so"), _Library("libhccl.so")


class HcclError(Exception):
    """A call or a synchronisation that returned ``code``."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def call(function: Any, *args: Any) -> None:
    code = function(*args)
    if code:
        raise HcclError(code, (acl.aclGetRecentErrMsg() or b"").decode())


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


class Buffer:
    """Device memory that holds an array."""

    def __init__(self, values: np.ndarray) -> None:
        self.like = np.ascontiguousarray(values)
        self.at = ctypes.c_void_p()
        call(acl.aclrtMalloc, ctypes.byref(self.at), ctypes.c_size_t(max(self.like.nbytes, 32)), 0)
        self._copy(self.at, self.like.ctypes.data_as(ctypes.c_void_p), 1)

    def _copy(self, to: Any, source: Any, kind: int) -> None:
        n = ctypes.c_size_t(self.like.nbytes)
        call(acl.aclrtMemcpy, to, n, source, n, kind)

    def get(self) -> np.ndarray:
        out = np.empty_like(self.like)
        self._copy(out.ctypes.data_as(ctypes.c_void_p), self.at, 2)
        return out

    def free(self) -> None:
        call(acl.aclrtFree, self.at)


def set_device(index: int) -> None:
    call(acl.aclrtSetDevice, index)


def root_info() -> bytes:
    info = ctypes.create_string_buffer(ROOT_INFO_BYTES)
    call(hccl.HcclGetRootInfo, info)
    return info.raw


def shared(folder: Path, name: str, made: bytes | None) -> bytes:
    """What one rank has ``made``, on all of them."""
    path = folder / name
    if made is not None:
        path.with_suffix(".part").write_bytes(made)
        path.with_suffix(".part").rename(path)
    while not path.exists():
        time.sleep(0.005)
    return path.read_bytes()


def counts(numbers: Sequence[int]) -> Any:
    return (ctypes.c_uint64 * len(numbers))(*numbers)


class SendRecv(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("buf", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("dtype", ctypes.c_int),
        ("peer", ctypes.c_uint32),
    )


class Comm:
    """A communicator, on a stream of its own."""

    def __init__(self, handle: ctypes.c_void_p, rank: int, size: int) -> None:
        self.handle, self.rank, self.size = handle, rank, size
        self.stream = ctypes.c_void_p()
        call(acl.aclrtCreateStream, ctypes.byref(self.stream))

    @classmethod
    def join(cls, folder: Path, name: str, rank: int, size: int) -> Comm:
        info = shared(folder, name, root_info() if rank == 0 else None)
        handle = ctypes.c_void_p()
        call(hccl.HcclCommInitRootInfo, size, info, rank, ctypes.byref(handle))
        return cls(handle, rank, size)

    def post(self, name: str, *args: Any) -> None:
        """Put a call on the stream: buffers, ints (as uint64), count arrays, then what every call ends with."""
        plain = [a.at if isinstance(a, Buffer) else a for a in args]
        call(getattr(hccl, name), *plain, self.handle, self.stream)

    def wait(self) -> None:
        call(acl.aclrtSynchronizeStream, self.stream)

    def run(self, name: str, *args: Any) -> None:
        self.post(name, *args)
        self.wait()

    def async_error(self) -> int:
        code = ctypes.c_int()
        call(hccl.HcclGetCommAsyncError, self.handle, ctypes.byref(code))
        return code.value

    def close(self) -> None:
        call(hccl.HcclCommDestroy, self.handle)
        call(acl.aclrtDestroyStream, self.stream)

    # -- with arrays
    def all_reduce(self, values: np.ndarray, dtype: str, op: int = SUM) -> np.ndarray:
        data = Buffer(values)
        self.run("HcclAllReduce", data, data, n(values.size), DTYPES[dtype][0], op)
        return got(data)

    def exchange(self, items: Sequence[tuple[str, Buffer, str, int]]) -> None:
        """``("send" or "recv", buffer, dtype, peer)``, as one HcclBatchSendRecv on the stream."""
        array = (SendRecv * len(items))(
            *(
                SendRecv(0 if kind == "send" else 1, data.at.value, data.like.size, DTYPES[dtype][0], peer)
                for kind, data, dtype, peer in items
            )
        )
        self.run("HcclBatchSendRecv", array, len(items))


def n(count: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(count)


def got(*buffers: Buffer) -> Any:
    """What is in them; frees them."""
    arrays = [b.get() for b in buffers]
    for b in buffers:
        b.free()
    return arrays[0] if len(arrays) == 1 else arrays
