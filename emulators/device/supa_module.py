"""``torch.supa``: the public surface of Biren's device module, on the emulated device."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch import OutOfMemoryError

from hetero.emulators.device.properties import DeviceProperties, properties
from hetero.emulators.device.supa import here

_device: Any = sys.modules["hetero_device"]
default_generators = tuple(_device.default_generator(i) for i in range(_device.device_count()))


# -- devices
@functools.lru_cache(maxsize=1)
def device_count() -> int:
    """Devices that this process may use; asked for once, so visibility has to be set before."""
    return _device.device_count()


def is_available() -> bool:
    return device_count() > 0


def init() -> None:
    _device.use()


_lazy_init = init


def is_initialized() -> bool:
    return not _device.bad_fork()


def _is_in_bad_fork() -> bool:
    return _device.bad_fork()


def _index(device: Any = None) -> int:
    if device is None:
        return _device.current_device()
    if isinstance(device, int):
        return device if device >= 0 else _device.current_device()
    index = torch.device(device).index
    return _device.current_device() if index is None else index


def current_device() -> int:
    return _device.current_device()


def set_device(device: Any) -> None:
    _device.set_device(_index(device))


class device:
    """Context manager: the current device is another one inside. A negative index changes nothing."""

    def __init__(self, device: Any) -> None:
        self._to = device if isinstance(device, int) else _index(device)
        self._before = -1

    def __enter__(self) -> None:
        self._before = _device.maybe_exchange_device(self._to)

    def __exit__(self, *args: object) -> None:
        _device.set_device(self._before)


def synchronize(device: Any = None) -> None:
    _device.synchronize(_index(device))


def get_device_properties(device: Any = None) -> DeviceProperties:
    return properties(here(), _index(device))


def get_device_name(device: Any = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    found = get_device_properties(device)
    return found.major, found.minor


def can_device_access_peer(device: Any, peer: Any) -> bool:
    return _index(device) != _index(peer)


# -- streams
class Stream(torch.Stream):
    """A stream of work; see torch.cuda.Stream."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, torch.device("supa", _index(device)), priority=priority)

    @property
    def supa_stream(self) -> int:
        return self.stream_id

    cuda_stream = supa_stream


class Event(torch.Event):
    """A point in a stream; see torch.cuda.Event."""

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Event:
        if interprocess:
            raise RuntimeError(
                "SUPA error: not supported: the emulated device has no events of several processes"
            )
        return super().__new__(cls, "supa", enable_timing=enable_timing, blocking=blocking)

    def elapsed_time(self, end_event: Any) -> float:
        return _device.elapsed(self.event_id, end_event.event_id)


def _stream(of: tuple[int, int, int]) -> Stream:
    return Stream(stream_id=of[0], device_index=of[1], device_type=of[2])


def current_stream(device: Any = None) -> Stream:
    return _stream(_device.current_stream(_index(device)))


def default_stream(device: Any = None) -> Stream:
    return _stream(_device.default_stream(_index(device)))


def set_stream(stream: Any) -> None:
    if stream is not None:
        _device.set_stream(stream.stream_id, stream.device_index)


@contextmanager
def stream(stream: Any) -> Iterator[None]:
    """Work inside goes to ``stream``; None changes nothing."""
    if stream is None:
        yield
        return
    index, before = current_device(), current_stream(stream.device_index)
    set_stream(stream)
    try:
        yield
    finally:
        set_stream(before)
        set_device(index)


# -- memory
def memory_stats(device: Any = None) -> dict[str, Any]:
    flat: dict[str, Any] = {}

    def put(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                put(f"{prefix}.{name}" if prefix else name, inner)
        else:
            flat[prefix] = value

    put("", _device.memory_stats(_index(device)))
    return dict(sorted(flat.items()))


def memory_allocated(device: Any = None) -> int:
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: Any = None) -> int:
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Any = None) -> int:
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: Any = None) -> int:
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: Any = None) -> None:
    _device.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    _device.reset_accumulated_memory_stats(_index(device))


def memory_snapshot() -> list[dict[str, Any]]:
    return _device.memory_snapshot()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    return _device.memory_info(_index(device))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _device.set_memory_fraction(fraction, _index(device))


def empty_cache() -> None:
    _device.empty_cache()


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    return _device.raw_alloc(size, 0)


def caching_allocator_delete(pointer: int) -> None:
    _device.raw_delete(pointer)


# -- random numbers
def manual_seed(seed: int) -> None:
    default_generators[current_device()].manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> None:
    default_generators[current_device()].seed()


def seed_all() -> None:
    manual_seed_all(default_generators[0].seed())


def initial_seed() -> int:
    return default_generators[current_device()].initial_seed()


def get_rng_state(device: Any = "supa") -> torch.Tensor:
    return default_generators[_index(device)].get_state()


def set_rng_state(state: torch.Tensor, device: Any = "supa") -> None:
    default_generators[_index(device)].set_state(state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(states: Iterable[torch.Tensor]) -> None:
    for generator, state in zip(default_generators, states):
        generator.set_state(state)


# -- mixed precision
def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16, torch.float32]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False without ``including_emulation``, as the vendor's answers; with it, by trying."""
    if not including_emulation:
        return False
    torch.zeros(1, dtype=torch.bfloat16, device="supa")
    return True


class autocast(torch.amp.autocast):
    """``torch.autocast("supa")``; float16 unless another dtype is asked for."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("supa", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch's, for this device; its scale is inverted in float32, for there is no float64."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("supa", **kwargs)

    def unscale_(self, optimizer: Any) -> None:
        if not self._enabled:
            return
        scale = self._scale
        assert scale is not None, "unscale_ before scale"
        self._scale = _Float32Only(scale)  # type: ignore[assignment]
        try:
            super().unscale_(optimizer)
        finally:
            self._scale = scale


class _Float32Only:
    """A scale whose ``double()`` stays float32."""

    def __init__(self, scale: torch.Tensor) -> None:
        self._scale = scale

    def double(self) -> torch.Tensor:
        return self._scale.float()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scale, name)


# -- graphs
class SUPAGraph:
    """Refused, with the reason."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:  # type: ignore[misc]
        raise RuntimeError(
            "SUPA error: operation not supported: hetero's emulated SUPA device cannot capture graphs: its operators "
            "run when they are called and there is nothing to replay"
        )


def graph(supa_graph: Any, pool: Any = None, stream: Any = None) -> Any:
    return SUPAGraph()


def make_graphed_callables(*args: Any, **kwargs: Any) -> Any:
    return SUPAGraph()


def is_current_stream_capturing() -> bool:
    return False


def warn_double() -> None:
    """What Biren's package says where float64 is asked for."""
    warnings.warn("SUPA device does not support double (float64)", stacklevel=2)


__all__ = [name for name in dir() if not name.startswith("_")] + [
    "_lazy_init",
    "_is_in_bad_fork",
    "OutOfMemoryError",
]
