"""Biren GPUs: ``torch_supa`` (BR2xx) or ``torch_br`` (BR1xx); the torch device type is ``supa``."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from hetero.accelerator.backend import SPECIFIC, Backend, CommSpec, Identity, Probe
from hetero.accelerator.caps import Caps
from hetero.accelerator.host import Host

_SDK = "/usr/local/birensupa"
_INSTALL = (
    "Biren's driver and SDK (`source /usr/local/birensupa/all/latest/scripts/brsw_set_env.sh`), then Biren's "
    "torch package: torch_supa for BR2xx, torch_br for BR104, BR106 and BR166"
)


_BCCL_DTYPES = ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool")
_BCCL_UNVERIFIED = (
    *("isend", "irecv", "batch_isend_irecv", "reduce"),
    *("gather", "gather_object", "scatter", "scatter_object_list", "monitored_barrier"),
)


@dataclass(frozen=True)
class Line:
    """What differs between Biren's two incompatible PyTorch packages."""

    package: str
    arch: str
    comm: str
    env: Mapping[str, str]


_QUIET = {"BRTB_TRANSFER_SILENCE": "1", "BRTB_LOG_BACKEND": "empty"}
LINES = (
    # Autoload off: torch_supa's autoload replaces torch.cuda; imported by hand, it does not.
    Line("torch_supa", "br2xx", "bccl", {**_QUIET, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}),
    Line("torch_br", "br1xx", "sccl", {**_QUIET, "PYTORCH_SUPA_ALLOC_CONF": "max_split_size_mb:512"}),
)


class BirenBackend(Backend):
    """Both product lines. ``torch.cuda`` proves nothing here: torch_supa makes it answer."""

    name = "biren"
    torch_types = ("supa",)
    also_called = ("br", "birensupa", "br104", "br106", "br166")
    visible_devices_env = ("SUPA_VISIBLE_DEVICES", "BIREN_VISIBLE_DEVICES")

    def probe(self, host: Host) -> Probe:
        installed = {line.package: v for line in LINES if (v := host.package(line.package))}
        nodes, tool = host.glob("/dev/biren/card_*"), host.which("brsmi")
        packages = ", ".join(f"{name} {version}" for name, version in installed.items())
        evidence = (
            f"Python packages: {packages or 'no torch_supa, no torch_br'}",
            f"device nodes: {', '.join(nodes) or 'no /dev/biren/card_*'}",
            f"SDK: {_SDK if host.exists(_SDK) else f'no {_SDK}'}; brsmi: {tool or 'not on PATH'}",
        )
        versions = {"torch": host.torch_version, **installed}
        conflicts = []
        if {f"{p}.contrib.transfer_to_supa" for p in installed} & host.modules:
            conflicts.append("transfer_to_supa is loaded: torch.cuda answers for Biren's device")
        error = _error(installed, present=bool(nodes or host.exists(_SDK) or tool))
        state = "broken" if error else "found" if installed else "absent"
        return Probe(state, SPECIFIC, evidence, tuple(conflicts), versions, install=_INSTALL, error=error)

    def load(self) -> None:
        for name, value in self.launch_env().items():
            os.environ.setdefault(name, value)
        importlib.import_module(installed_line().package)

    def identity(self, index: int) -> Identity:
        line = installed_line()
        version = Host.here().package(line.package)
        return Identity(self.module().get_device_name(index), line.arch, {line.package: version or "?"})

    def caps(self, index: int) -> Caps:
        identity = self.identity(index)
        return self.table().caps(identity.arch, chip=identity.name)

    def comm(self) -> CommSpec | None:
        line = installed_line()
        if line.arch == "br1xx":
            return CommSpec(
                line.comm,
                library="SUCCL",
                note="torch_br documents neither its collectives nor their dtypes",
                source="ModelTC/LightX2V@d137693 lightx2v_platform/base/biren_supa.py",
            )
        return CommSpec(
            line.comm,
            library="BCCL",
            reduce_dtypes=_BCCL_DTYPES,
            unverified=_BCCL_UNVERIFIED,
            note="fp8 travels as uint8 before BCCL 2.24: never reduce it",
            source="BIRENSUPA/torch-supa@68fb624 docs/user_guide/source/native_api/torch_distributed.rst",
        )

    def launch_env(self) -> dict[str, str]:
        env = dict(installed_line().env)
        if "BIREN_VISIBLE_DEVICES" in os.environ:  # what deployment scripts set; the runtime reads SUPA_
            env["SUPA_VISIBLE_DEVICES"] = os.environ["BIREN_VISIBLE_DEVICES"]
        return env

    def range(self, name: str) -> AbstractContextManager[Any]:
        brtx = getattr(self.module(), "brtx", None)
        return nullcontext() if brtx is None else _brtx_range(brtx, name)


def installed_line() -> Line:
    """The product line whose package is installed; BR2xx where neither is."""
    here = Host.here()
    return next((line for line in LINES if here.package(line.package)), LINES[0])


def _error(installed: Mapping[str, str], present: bool) -> str:
    if len(installed) > 1:
        return (
            "torch_supa (BR2xx) and torch_br (BR1xx) are both installed and claim torch.supa: uninstall one"
        )
    if not installed or present:
        return ""
    package = next(iter(installed))
    trap = "; a plain `import torch` then raises unless TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set"
    return f"{package} is installed but neither Biren's driver nor its SDK is" + trap * (
        package == "torch_supa"
    )


@contextmanager
def _brtx_range(brtx: Any, name: str) -> Iterator[None]:
    brtx.range_push(name)
    try:
        yield
    finally:
        brtx.range_pop()


backend = BirenBackend()
