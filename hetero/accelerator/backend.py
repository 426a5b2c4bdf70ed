"""The plugin interface: what a vendor supplies, and the version check it passes first."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetero.accelerator.caps import Caps
from hetero.accelerator.host import Host
from hetero.accelerator.tables import ChipTable, chip_table

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hetero.accelerator.device import Device
    from hetero.ops import Impl

#: Version of this interface, (major, minor). A new major breaks plugins; a new minor only adds to it.
API = (1, 0)

#: How a claim on a torch device type ranks: a skeleton, the host, any owner of the type, a named vendor.
PLACEHOLDER, HOST, GENERIC, SPECIFIC = -1, 0, 10, 20


@dataclass(frozen=True)
class Probe:
    """What a backend found out about this machine.

    Args:
        state: ``"found"`` (its software and driver are here), ``"absent"`` or ``"broken"``.
        score: rank of the claim: SPECIFIC beats GENERIC on the same torch device type.
        evidence: what was looked for and what was there, one sentence each.
        conflicts: what else on this machine contradicts or shadows the claim.
        versions: versions of the software that was found.
        install: what to install to get from "absent" to "found".
        error: why it is broken.
    """

    state: str
    score: int = GENERIC
    evidence: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    install: str = ""
    error: str = ""

    def __post_init__(self) -> None:
        if self.state not in ("found", "absent", "broken"):
            raise ValueError(f"probe state {self.state!r} is not found, absent or broken")


@dataclass(frozen=True)
class Identity:
    """Who a device is: ``name`` as torch prints it, ``arch``, and versions of what drives it.

    ``emulated``: it is no chip but one of hetero's emulators (:meth:`Host.emulated`).
    """

    name: str
    arch: str
    driver: dict[str, str] = field(default_factory=dict)
    emulated: bool = False


@dataclass(frozen=True)
class CommSpec:
    """The vendor's collectives.

    Args:
        backend: name for ``torch.distributed`` (``"gloo"``).
        library: the library beneath.
        reduce_dtypes: torch dtype names its reductions take; empty means not documented.
        unverified: collectives the vendor does not document as working: build them from the others.
        note: limits worth a warning.
        source: where this was read.
        reduce_except: (op, dtype name) pairs that it does not take though it reduces the dtype.
        bytes_as: torch dtype name that bytes travel as.
        by_messages: collectives that are sends and receives instead (``"all_to_all"`` alone).
        lists_at: numbers of ranks at which all_gather and reduce_scatter take lists, not one tensor.
    """

    backend: str
    library: str
    reduce_dtypes: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    note: str = ""
    source: str = ""
    reduce_except: tuple[tuple[str, str], ...] = ()
    bytes_as: str = "uint8"
    by_messages: tuple[str, ...] = ()
    lists_at: tuple[int, ...] = ()


class Backend:
    """A vendor's plugin. Subclass it; set the attributes; override ``probe`` and what differs.

    The defaults serve any vendor whose torch package offers a device module shaped like torch's own.
    Attributes and ``probe`` must work where the vendor's software is absent.
    """

    #: What users write: ``--device=NAME``.
    name: str = ""
    #: Version of this interface it was written against.
    api: tuple[int, int] = API
    #: Torch device types its tensors live on; the first is the one devices are named by.
    torch_types: tuple[str, ...] = ()
    #: Other things people may call it; they lead to a hint, never to a match.
    also_called: tuple[str, ...] = ()
    #: Package that holds ``caps.json`` and ``peaks.json``; "" is the one that defines the class.
    tables: str = ""
    #: Environment variables that hide devices.
    visible_devices_env: tuple[str, ...] = ()

    def probe(self, host: Host) -> Probe:
        """Say whether the vendor is here, from ``host`` alone: under 200 ms, nothing imported or opened."""
        raise NotImplementedError

    def load(self) -> None:
        """Import the vendor's torch package. Called once, before the first device is made."""

    def module(self) -> Any:
        """The torch device module (``torch.cuda``-shaped)."""
        import torch

        return torch.get_device_module(self.torch_types[0])

    def device_count(self) -> int:
        """Visible devices. May load the vendor's runtime but creates no context."""
        return self.module().device_count()

    def device(self, index: int) -> Device:
        """Device ``index``, 0 <= index < ``device_count()``."""
        from hetero.accelerator.device import Device

        return Device(self, index)

    def table(self) -> ChipTable:
        """The capability and peak tables."""
        return chip_table(self.tables or type(self).__module__)

    def identity(self, index: int) -> Identity:
        """Name, architecture and driver versions of device ``index``."""
        name = self.module().get_device_name(index)
        return Identity(name, self.table().arch(name))

    def caps(self, index: int) -> Caps:
        """Capabilities of device ``index``."""
        return self.table().caps(self.identity(index).name)

    def comm(self) -> CommSpec | None:
        """The vendor's collectives, or None."""
        return None

    def ops(self) -> Iterable[Impl]:
        """Implementations it brings, as data with lazy targets: importing no kernel."""
        return ()

    def launch_env(self) -> dict[str, str]:
        """Environment a launcher sets, where unset, before Python starts in each worker."""
        return {}

    def range(self, name: str) -> AbstractContextManager[Any]:
        """A range named ``name`` in the vendor's own profiler."""
        return contextlib.nullcontext()


def check_api(name: str, api: object, package: str) -> str | None:
    """Why a plugin written against ``api`` cannot be used, naming both versions and what to upgrade.

    The major must match; the plugin's minor may be older. None when it fits.
    """
    if not (isinstance(api, tuple) and len(api) == 2 and all(isinstance(n, int) for n in api)):
        return f"backend {name!r} ({package}): api must be (major, minor), it is {api!r}"
    if api[0] == API[0] and api[1] <= API[1]:
        return None
    behind = package if api[0] < API[0] else "hetero"
    hetero_version = importlib.import_module("hetero").__version__
    return (
        f"backend {name!r} ({package}) is written for backend API {api[0]}.{api[1]}, "
        f"hetero {hetero_version} has {API[0]}.{API[1]}: upgrade {behind}"
    )
