"""CUDA's C++ bindings for torch's own ``torch.cuda``, which then runs unmodified on the emulated device.

A CPU build of torch has all of ``torch.cuda``'s Python and none of the functions of ``torch._C`` beneath it. They are
put there just before ``torch.cuda`` is imported, so that it finds a build with CUDA.
"""

from __future__ import annotations

import enum
import sys
import types
from pathlib import Path
from typing import Any, NoReturn

from hetero.emulators.device import start
from hetero.emulators.device.properties import DeviceProperties, properties
from hetero.emulators.device.settings import Settings

_GRAPHS = (
    "cannot capture graphs: its operators run when they are called and there is nothing to replay. "
    "Run without torch.cuda.graph, make_graphed_callables and torch.compile(mode='reduce-overhead')"
)


def install(site: Path, settings: Settings, archs: str, cuda: str) -> None:
    """Put the bindings into ``torch._C``.

    Args:
        site: the emulator's folder of packages.
        archs: architectures that this torch says it has kernels for.
        cuda: version of the CUDA that it says it was compiled with: ``"12.8"``.
    """
    import torch._C as c

    device = start.bindings(site)
    start.report_fallbacks(device, settings.fallbacks)
    stream, event = _streams(c, device)
    major, minor = map(int, cuda.split(".")[:2])
    found: dict[str, Any] = {
        "_has_cuda": True,
        "_cudart": _cudart(device),
        "_CudaDeviceProperties": DeviceProperties,
        "_CudaStreamBase": stream,
        "_CudaEventBase": event,
        "_CUDAGraph": _Graph,
        "_graph_pool_handle": lambda: (0, 1),
        "_cuda_isCurrentStreamCapturing": lambda: False,
        "_cuda_init": lambda: _init(device, settings),
        "_cuda_isInBadFork": device.bad_fork,
        "_cuda_getDeviceCount": device.device_count,
        "_cuda_getDevice": device.current_device,
        "_cuda_setDevice": device.set_device,
        "_cuda_exchangeDevice": device.exchange_device,
        "_cuda_maybeExchangeDevice": device.maybe_exchange_device,
        "_cuda_synchronize": device.synchronize,
        "_cuda_hasPrimaryContext": lambda index: 0 <= index < device.device_count(),
        "_cuda_canDeviceAccessPeer": lambda a, b: a != b,
        "_cuda_getArchFlags": lambda: archs,
        "_cuda_getCompiledVersion": lambda: major * 1000 + minor * 10,
        "_cuda_getCurrentStream": device.current_stream,
        "_cuda_getDefaultStream": device.default_stream,
        "_cuda_getCurrentRawStream": lambda index: device.current_stream(index)[0],
        "_cuda_getCurrentBlasHandle": lambda: 0,
        "_cuda_setStream": lambda stream_id, device_index, device_type: device.set_stream(stream_id, device_index),
        "_cuda_sleep": lambda cycles: None,
        "_cuda_ipc_collect": lambda: None,
        "_cuda_clearCublasWorkspaces": lambda: None,
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_set_sync_debug_mode": _sync_debug,
        "_cuda_emptyCache": device.empty_cache,
        "_cuda_memoryStats": device.memory_stats,
        "_cuda_resetPeakMemoryStats": device.reset_peak_memory_stats,
        "_cuda_resetAccumulatedMemoryStats": device.reset_accumulated_memory_stats,
        "_cuda_memorySnapshot": lambda pool: {"segments": device.memory_snapshot(), "device_traces": []},
        "_cuda_setMemoryFraction": device.set_memory_fraction,
        "_cuda_getMemoryFraction": device.memory_fraction,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_cudaCachingAllocator_raw_alloc": device.raw_alloc,
        "_cuda_cudaCachingAllocator_raw_delete": device.raw_delete,
        "_cuda_cudaCachingAllocator_enable": lambda value: None,
        "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
    }  # fmt: skip
    for name, value in found.items():
        setattr(c, name, value)
    sys.modules.setdefault("torch._C._cudart", found["_cudart"])


def finish() -> None:
    """What has to wait until torch is imported: storages of CUDA's are resized by a function of a CUDA build."""
    import torch

    device = sys.modules["hetero_device"]
    plain = torch.UntypedStorage.resize_

    def resize_(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return plain(self, size)
        device.resize_storage(torch.empty(0, dtype=torch.uint8, device=self.device).set_(self), size)  # type: ignore[attr-defined]
        return self

    torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign,assignment]


def nccl(site: Path, settings: Settings) -> None:
    """Put ``ProcessGroupNCCL`` where ``torch.distributed`` looks for it."""
    import torch._C._distributed_c10d as c10d

    c10d.ProcessGroupNCCL = start.collectives(site, settings, "nccl", "NCCL")  # type: ignore[attr-defined]


def _init(device: Any, settings: Settings) -> None:
    import torch

    device.use()
    if not device.device_count():
        raise RuntimeError("No CUDA GPUs are available")
    torch.cuda.default_generators = tuple(device.default_generator(i) for i in range(device.device_count()))
    torch.cuda._get_device_properties = lambda index: properties(settings, index)  # type: ignore[attr-defined]


def _sync_debug(mode: int) -> None:
    if mode:
        raise NotImplementedError(
            "the emulated device does not report synchronisations (set_sync_debug_mode)"
        )


class _Graph:
    """``torch.cuda.CUDAGraph``: refused, with the reason."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:  # type: ignore[misc]
        raise RuntimeError(f"CUDA error: operation not supported: hetero's emulated CUDA device {_GRAPHS}")


def _streams(c: Any, device: Any) -> tuple[type, type]:
    class _CudaStreamBase(c.Stream):  # type: ignore[misc,name-defined]
        def __new__(
            cls,
            priority: int = 0,
            stream_id: int = 0,
            device_index: int = 0,
            device_type: int = 0,
            stream_ptr: int = 0,
        ) -> Any:
            if stream_ptr:
                raise NotImplementedError(
                    "the emulated device has no streams of other libraries (ExternalStream)"
                )
            if device_type:
                return super().__new__(
                    cls, stream_id=stream_id, device_index=device_index, device_type=device_type
                )
            return super().__new__(cls, f"cuda:{device.current_device()}", priority=priority)

        @property
        def cuda_stream(self) -> int:
            return self.stream_id

        @property
        def priority(self) -> int:
            return -1 if self.stream_id > 32 else 0

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, -1

    class _CudaEventBase(c.Event):  # type: ignore[misc,name-defined]
        def __new__(
            cls,
            enable_timing: bool = False,
            blocking: bool = False,
            interprocess: bool = False,
            external: bool = False,
        ) -> Any:
            if interprocess:
                raise RuntimeError(
                    "CUDA error: operation not supported: the emulated device has no events of several processes"
                )
            return super().__new__(cls, "cuda", enable_timing=enable_timing, blocking=blocking)

        def elapsed_time(self, end_event: Any) -> float:
            # torch's own takes no subclass of its class
            return device.elapsed(self.event_id, end_event.event_id)

        @property
        def cuda_event(self) -> int:
            return self.event_id

    return _CudaStreamBase, _CudaEventBase


def _cudart(device: Any) -> types.ModuleType:
    class cudaError(enum.IntEnum):
        success = 0
        invalidValue = 1
        notReady = 600

    module = types.ModuleType("torch._C._cudart")
    pinned: dict[int, int] = {}

    def cudaHostRegister(pointer: int, size: int, flags: int) -> cudaError:
        pinned[pointer] = size
        return cudaError.success

    def cudaHostUnregister(pointer: int) -> cudaError:
        return cudaError.success if pinned.pop(pointer, None) else cudaError.invalidValue

    contents: dict[str, Any] = {
        "cudaError": cudaError,
        "cudaGetErrorString": lambda error: cudaError(error).name,
        "cudaMemGetInfo": device.memory_info,
        "cudaHostRegister": cudaHostRegister,
        "cudaHostUnregister": cudaHostUnregister,
        "cudaProfilerStart": lambda: cudaError.success,
        "cudaProfilerStop": lambda: cudaError.success,
    }
    module.__dict__.update(contents)
    return module


def before_torch(site: Path, torch: Path, settings: Settings, *, archs: str, cuda: str) -> None:
    """Start the devices, and see to it that ``torch.cuda`` finds them. For torch's ``version.py``."""
    start.start(site, torch, "cuda", "CUDA", settings)
    start.BeforeImport("torch.cuda", lambda: install(site, settings, archs, cuda)).install()
    start.BeforeImport("torch._logging", finish).install()
    start.BeforeImport("torch.distributed.distributed_c10d", lambda: nccl(site, settings)).install()
