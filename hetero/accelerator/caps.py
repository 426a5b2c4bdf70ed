"""What a device can do: tri-state, and every "no" carries its reason. Unknown is not yes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from hetero.accelerator.peaks import Peak

STATES = ("yes", "no", "emulated", "unknown")


@dataclass(frozen=True)
class Cap:
    """One capability.

    Args:
        state: ``"yes"``; ``"no"``; ``"emulated"`` (right, but not by the hardware's own units: slow);
            ``"unknown"`` (neither stated by the vendor nor tried).
        why: a sentence; required for "no" and "emulated".
        value: what the capability amounts to, where it is more than a flag (bytes, lanes, a name).
        source: where the claim was read: repository and path, or the call that was asked.

    ``bool(cap)`` is true for "yes" alone, so a forgotten entry fails closed.
    """

    state: str = "unknown"
    why: str = ""
    value: Any = None
    source: str = ""

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(f"capability state {self.state!r} is not one of {STATES}")
        if self.state in ("no", "emulated") and not self.why:
            raise ValueError(f"a capability that is {self.state!r} must say why")

    def __bool__(self) -> bool:
        return self.state == "yes"

    def __str__(self) -> str:
        text = self.state if self.value is None else f"{self.state} ({_show(self.value)})"
        return f"{text}: {self.why}" if self.why else text

    @property
    def usable(self) -> bool:
        """Whether results are right, be it by emulation."""
        return self.state in ("yes", "emulated")


UNKNOWN = Cap()


@dataclass(frozen=True)
class Caps:
    """Capabilities of one device. A field that nobody filled in is unknown."""

    bf16: Cap = UNKNOWN
    fp16: Cap = UNKNOWN
    fp64: Cap = UNKNOWN
    #: ``value``: tuple of torch dtype names the matrix units take.
    fp8_formats: Cap = UNKNOWN
    #: Atomic adds on bf16 in device memory.
    bf16_atomics: Cap = UNKNOWN
    #: Offsets beyond 2^31 elements in the vendor's own operators.
    int64_index: Cap = UNKNOWN
    #: ``value``: name of the backend inside Triton.
    triton: Cap = UNKNOWN
    graph_capture: Cap = UNKNOWN
    #: Direct copies between devices of one host.
    p2p: Cap = UNKNOWN
    #: Copies that overlap with compute, from pinned host memory.
    async_copy: Cap = UNKNOWN
    #: ``value``: name for ``torch.compile(backend=...)``.
    compile_backend: Cap = UNKNOWN
    #: Scatter and index-add give the same bits every time under deterministic mode.
    deterministic_scatter: Cap = UNKNOWN
    #: ``value``: cores that kernels spread over (streaming multiprocessors, vector cores).
    cores: Cap = UNKNOWN
    #: ``value``: bytes of shared memory (or unified buffer) a block or core may use.
    max_shared_bytes: Cap = UNKNOWN
    #: ``value``: lanes that run in lockstep.
    warp: Cap = UNKNOWN
    #: Takes the ``cuda`` device string and CUDA sources. ``value``: compute capability it reports.
    cuda_compat: Cap = UNKNOWN
    #: Peak rates: ``"bf16"``, ``"fp32"``, ... in FLOP/s, ``"memory"`` and ``"link"`` in byte/s.
    peaks: Mapping[str, Peak] = field(default_factory=dict)

    def peak(self, name: str) -> Peak:
        """The peak called ``name``; one of kind "unknown" where no figure is recorded, never a guess."""
        return self.peaks.get(name, Peak())

    def items(self) -> list[tuple[str, Cap]]:
        """Every capability by name, in the order declared (without the peaks)."""
        return [(f.name, getattr(self, f.name)) for f in fields(self) if f.name != "peaks"]


CAP_NAMES = tuple(f.name for f in fields(Caps) if f.name != "peaks")


def _show(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
