"""One device, of any vendor: the shared code over torch's own device module.

A vendor overrides only what differs. Torch is imported when the first device is made, not with this module:
``hetero doctor`` has to work where importing torch itself fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hetero.accelerator.caps import Caps

if TYPE_CHECKING:
    import torch

    from hetero.accelerator.backend import Backend, Identity
    from hetero.accelerator.graph import Graph


@dataclass(frozen=True)
class MemoryInfo:
    """Memory of a device, in bytes. A figure that the vendor's package cannot give is None.

    ``allocated`` is what live tensors hold, ``reserved`` what the allocator holds, ``peak`` the most that was
    allocated so far. On a CPU they are this process's resident set.
    """

    free: int | None
    total: int | None
    allocated: int | None
    reserved: int | None
    peak: int | None


class Device:
    """A device: ``vendor`` and ``type`` are two things (MetaX's ``type`` is ``"cuda"``).

    Two devices are equal when vendor and index are. A device pickles as its name.
    """

    def __init__(self, backend: Backend, index: int) -> None:
        import torch

        self.backend = backend
        self.index = index
        #: What to give to torch: ``torch.zeros(3, device=dev.torch)``.
        self.torch: torch.device = torch.device(self.type, index)

    # -- who it is
    @property
    def vendor(self) -> str:
        """Name of the backend: ``"cpu"``, ``"cuda"``, ``"ascend"``, ``"metax"``, ``"biren"``, ..."""
        return self.backend.name

    @property
    def type(self) -> str:
        """Torch device type; not unique to a vendor."""
        return self.backend.torch_types[0]

    @cached_property
    def _identity(self) -> Identity:
        return self.backend.identity(self.index)

    @property
    def name(self) -> str:
        """Model, as the vendor's package prints it; "(emulated)" follows where it is no chip."""
        return self._identity.name + (" (emulated)" if self.emulated else "")

    @property
    def emulated(self) -> bool:
        """Whether it is one of hetero's emulators: it proves nothing about a chip, and its speed means nothing."""
        return self._identity.emulated

    @property
    def arch(self) -> str:
        """Architecture that kernels are chosen by (``"avx2"``, ``"sm_90"``, ``"a2"``, ``"xcore1000"``)."""
        return self._identity.arch

    @property
    def driver(self) -> dict[str, str]:
        """Versions of the driver and runtime."""
        return self._identity.driver

    @cached_property
    def caps(self) -> Caps:
        """What it can do, with a reason for every no."""
        return self.backend.caps(self.index)

    @property
    def module(self) -> Any:
        """The torch device module (``torch.get_device_module(type)``)."""
        return self.backend.module()

    # -- what it does
    def memory(self) -> MemoryInfo:
        """Memory now, in bytes."""
        free, total = self._ask("mem_get_info", "get_memory_info") or (None, None)
        return MemoryInfo(
            free=free,
            total=total,
            allocated=self._ask("memory_allocated"),
            reserved=self._ask("memory_reserved"),
            peak=self._ask("max_memory_allocated"),
        )

    def stream(self) -> Any:
        """A new stream; enter it with ``dev.module.stream(s)``."""
        return self.module.Stream(device=self.torch)

    def event(self, timing: bool = True) -> Any:
        """A new event. ``a.elapsed_time(b)`` is in milliseconds when both were made with ``timing``."""
        return self.module.Event(enable_timing=timing)

    def synchronize(self) -> None:
        """Wait until all work given to the device is done."""
        self.module.synchronize(self.torch)

    def rng_state(self) -> torch.Tensor:
        """State of the device's default generator: uint8, on the CPU."""
        return self.module.get_rng_state(self.torch)

    def set_rng_state(self, state: torch.Tensor) -> None:
        """Restore what :meth:`rng_state` gave."""
        self.module.set_rng_state(state, self.torch)

    def graph(self, fn: Callable[..., Any], *args: torch.Tensor) -> Graph:
        """``fn`` captured for replay with tensors shaped like ``args``; plain ``fn`` where it cannot be.

        The result's ``captured`` and ``why`` say which.
        """
        from hetero.accelerator.graph import capture

        return capture(self, fn, args)

    @contextlib.contextmanager
    def trace(self, name: str) -> Iterator[None]:
        """A named range, in torch's profiler and in the vendor's."""
        import torch

        with torch.profiler.record_function(name), self.backend.range(name):
            yield

    def explain(self) -> str:
        """Which device this is, why it was chosen, what the other backends said, and what it can do."""
        from hetero.accelerator.explain import explain

        return explain(self)

    def _ask(self, *names: str) -> Any:
        """Answer of the first of ``names`` that the device module, or else ``torch.accelerator``, has."""
        import torch

        # Up to torch 2.6 asking raises where there is none.
        current = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        generic = (torch.accelerator,) if current is not None and current.type == self.type else ()
        for module in (self.module, *generic):
            for name in names:
                call = getattr(module, name, None)
                if call is not None:
                    return call(self.torch)
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return (self.vendor, self.index) == (other.vendor, other.index)

    def __hash__(self) -> int:
        return hash((self.vendor, self.index))

    def __str__(self) -> str:
        return f"{self.vendor}:{self.index}"

    def __repr__(self) -> str:
        return f"hetero.device({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        from hetero.accelerator.select import device

        return device, (str(self),)
