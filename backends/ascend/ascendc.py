"""hetero's own AscendC kernels: where the compiled module is, what it implements, and where a kernel is to run.

Three builds of the same sources: by CANN's compiler for a chip (``_kernels``, see docs/kernels_ascend.md), by the
ordinary compiler for emulated Ascend devices, and by the ordinary compiler for tests on the CPU's own memory.

Streams: a kernel goes straight onto the ``aclrtStream`` behind the current torch stream. torch_npu holds queued work
back in a host thread, so a raw stream is safe only after that queue has drained. ``Stream.npu_stream`` does that: its
getter calls ``NPUStream::stream()``, which waits for the queue (``MakeSureQueueEmpty``) before it returns the handle;
``stream(false)`` would not. Source: Ascend/pytorch ``torch_npu/csrc/npu/Stream.cpp``,
``torch_npu/csrc/core/npu/NPUStream.cpp``.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from hetero.errors import BackendError
from hetero.ops import Impl
from hetero.ops.where import Facts, Where

#: The module as CANN's compiler builds it, beside this file.
MODULE = "hetero.backends.ascend._kernels"
#: Bytes of unified buffer that a kernel may fill on A2 and A3: 192 KiB, less 256 bytes that the hardware keeps and
#: 8 KiB that ordinary builds keep. Source: bishengir target specifications; asc-devkit (its compiler flag
#: ``--cce-disable-asc-reserved-ubuf``).
UNIFIED_BUFFER = 192 * 1024 - 256 - 8 * 1024
#: DLPack's type code and bit width of the storage dtypes that the kernels take.
CODES = {torch.float32: (2 << 8) | 32, torch.float16: (2 << 8) | 16, torch.bfloat16: (4 << 8) | 16}

_HERE = "hetero.backends.ascend"
#: op -> module of its wrappers
_OPS = {
    "fused_add_rms_norm": "ascendc_norm",
    "swiglu": "ascendc_glu",
    "rope": "ascendc_rope",
    "cross_entropy": "ascendc_loss",
    "fused_linear_cross_entropy": "ascendc_linear",
    "linear_log_prob": "ascendc_linear",
}


class Place(NamedTuple):
    """Where a kernel runs: an ``aclrtStream``, how many vector cores, bytes of unified buffer."""

    stream: int
    cores: int
    unified_buffer: int


class Rows(NamedTuple):
    """A tensor ``[..., width]`` as rows; ``tensor`` owns the memory that ``address`` points to."""

    tensor: Tensor
    address: int
    rows: int
    width: int
    stride: int


def ascendc_ops() -> tuple[Impl, ...]:
    """An implementation for each op that the kernels cover; none where they were not built."""
    version = _version()
    return () if version is None else implementations(version[:12])


def implementations(version: str) -> tuple[Impl, ...]:
    """The same, of kernels of this ``version``, built or not."""
    # DataCopyPad as the kernels use it is A2's and A3's, the SoCs whose unified buffer the table of chips knows.
    where = Where(dtypes=frozenset(CODES), caps=("max_shared_bytes",), also=_fits)
    return tuple(
        Impl(
            op=op,
            name="ascendc",
            kind="native",
            where=where,
            version=version,
            forward=f"{_HERE}.{module}:{op}",
            backward=f"{_HERE}.{module}:{op}_backward",
        )
        for op, module in _OPS.items()
    )


def _fits(facts: Facts) -> str | None:
    if facts.last_dim == 0:
        return "rows of no elements"
    if facts.op == "rope" and facts.last_dim > 2040:
        return f"heads of {facts.last_dim} > 2040 features"
    return None


def _emulated() -> bool:
    from hetero.emulators import running  # only when asked: most processes need none of it

    return running() == "ascend"


def _version() -> str | None:
    """Hash of the sources that the kernels are, or would be, built from."""
    if _emulated():
        from hetero.emulators import ascendc

        return ascendc.source_hash() if ascendc.available() else None
    try:
        module = importlib.import_module(MODULE)
    except ImportError:
        return None
    # A build by the ordinary compiler, put here by mistake, would take device pointers for memory of its own.
    return None if module.emulated else module.source_hash()


@cache
def _built() -> ModuleType:
    if _emulated():
        from hetero.emulators import ascendc

        return ascendc.for_emulated_cann()
    return importlib.import_module(MODULE)


class _Chosen:
    """For tests: a module to use in place of the built one, and a place for CPU tensors."""

    module: ModuleType | None = None
    place: Place = Place(0, 40, UNIFIED_BUFFER)


def use(module: ModuleType | None, place: Place | None = None) -> None:
    """For tests: run ``module``, a build for the CPU's own memory, on CPU tensors; None goes back."""
    _Chosen.module = module
    _Chosen.place = place or Place(0, 40, UNIFIED_BUFFER)


def kernels() -> ModuleType:
    """The compiled module; imported, or in an emulated process built, when a kernel is first run.

    Raises:
        ImportError: it was not built. EmulatorError: it cannot be built.
    """
    return _Chosen.module or _built()


def place(x: Tensor) -> Place:
    """Where to run a kernel on ``x``: the current stream of its device, after torch_npu's queue has drained.

    Raises:
        BackendError: ``x`` is not on an NPU.
    """
    if x.device.type == "npu":
        npu = torch.get_device_module("npu")
        stream = npu.current_stream(x.device).npu_stream
        return Place(stream, _cores(x.device.index or 0), UNIFIED_BUFFER)
    if _Chosen.module is not None and x.is_cpu:
        return _Chosen.place
    raise BackendError(f"the AscendC kernels take tensors on an NPU, got one on {x.device}")


@cache
def _cores(index: int) -> int:
    return int(torch.get_device_module("npu").get_device_properties(index).vector_core_num)


def rows(x: Tensor) -> Rows:
    """``x`` as rows, without a copy wherever its strides allow."""
    width = x.shape[-1]
    if x.is_contiguous():
        return Rows(x, x.data_ptr(), x.shape[:-1].numel(), width, width)
    flat = x if x.dim() == 2 else x.reshape(x.shape[:-1].numel(), width)
    if (width > 1 and flat.stride(1) != 1) or flat.stride(0) < width:
        flat = flat.contiguous()
    return Rows(flat, flat.data_ptr(), flat.shape[0], width, flat.stride(0))


def like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Uninitialised and contiguous, in ``x``'s shape."""
    return x.new_empty(x.shape, dtype=dtype)
