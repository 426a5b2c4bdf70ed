"""What Biren's two PyTorch packages share here: PrivateUse1, renamed ``supa``, and its registration with torch.

``torch_supa`` and ``torch_br`` (in ``facades/``) are facades of the packages' public surface, written from what is
public about them; nothing of the vendor's is in them.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from hetero.emulators.device import chips, settings, start
from hetero.emulators.device.settings import Settings

#: Collectives without a mark in torch_supa's support matrix. For torch_br nothing is documented: the same are refused.
UNVERIFIED = frozenset({"reduce", "gather", "scatter"})
VISIBLE = ("SUPA_VISIBLE_DEVICES",)

_settings: Settings | None = None


def begin(package: str) -> Any:
    """Start the devices for ``package`` and name their type ``supa``; returns the bindings."""
    import torch

    global _settings
    site = _site()
    own = chips.BR1XX if package == "torch_br" else chips.BR2XX
    _settings = settings.here(own, VISIBLE)
    start.start(site, Path(torch.__file__).parent, "supa", "SUPA", _settings, float64=False)
    device = start.bindings(site)
    start.report_fallbacks(device, _settings.fallbacks)
    torch.utils.rename_privateuse1_backend("supa")
    return device


def register(module: ModuleType) -> None:
    """Make ``module`` be ``torch.supa``, and give tensors, modules and storages their methods."""
    import torch

    torch._register_device_module("supa", module)
    torch.utils.generate_methods_for_privateuse1_backend(
        unsupported_dtype=[torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]
    )


def serve(name: str, library: str) -> Any:
    """Register ``torch.distributed`` backend ``name`` for ``supa``; returns the class of its process groups."""
    import torch.distributed as dist

    made = start.collectives(_site(), here(), name, library, UNVERIFIED)

    def create(common: Any, options: Any) -> Any:
        if options is None:
            options = made.Options()
            options._timeout = common.timeout
        return made(common.store, common.group_rank, common.group_size, options)

    dist.Backend.register_backend(name, create, extended_api=True, devices=["supa"])
    for function in ("isend", "irecv", "batch_isend_irecv", "monitored_barrier"):
        setattr(dist, function, _refused(function, getattr(dist, function), name, library))
    return made


def here() -> Settings:
    """The settings of this process."""
    if _settings is None:
        raise RuntimeError("the emulated supa devices have not been started: import torch_supa or torch_br")
    return _settings


def _refused(function: str, plain: Any, name: str, library: str) -> Any:
    import functools

    import torch.distributed as dist

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        group = kwargs.get("group")
        if name in str(dist.get_backend_config(group) if dist.is_initialized() else ""):
            raise NotImplementedError(
                f"{library}: {function} is not verified by the vendor, and the emulator refuses it: use send, recv, "
                "all_gather or all_reduce"
            )
        return plain(*args, **kwargs)

    return call


def _site() -> Path:
    # The facades are links in the emulator's folder of packages, found by the path they were imported from.
    import sys

    for name in ("torch_supa", "torch_br"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            return Path(file).parent.parent
    raise RuntimeError("neither torch_supa nor torch_br is being imported")
