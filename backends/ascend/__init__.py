"""Huawei Ascend NPUs: ``torch_npu`` over CANN; the torch device type is ``npu``."""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Iterable, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hetero.accelerator.backend import SPECIFIC, Backend, CommSpec, Identity, Probe
from hetero.accelerator.caps import Cap, Caps
from hetero.accelerator.host import Host

if TYPE_CHECKING:
    from hetero.ops import Impl

_ROOTS = ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann")
_DRIVER_VERSION = "/usr/local/Ascend/driver/version.info"
_INSTALL = (
    "the Ascend driver and CANN, `source .../ascend-toolkit/set_env.sh`, then the torch_npu that matches "
    "torch (`pip install torch-npu==TORCH_VERSION`, or `pip install 'hetero[ascend]'`); where there is no NPU, "
    "`hetero emulate ascend -- COMMAND` runs on an emulated one and needs none of these"
)
_AUTOLOAD = (
    "torch_npu is installed without CANN, so a plain `import torch` raises: set "
    "TORCH_DEVICE_BACKEND_AUTOLOAD=0, or `pip uninstall torch-npu`, or install CANN and source its set_env.sh"
)


_COMM_NOTE = (
    "each process group takes 2 x HCCL_BUFFSIZE on the device; FSDP's own all_gather_into_tensor and "
    "reduce_scatter_tensor are documented as unsupported for 3, 5, 6 and 7 ranks"
)
#: Seconds; the default of 120 is short for large models. Source: ms-swift@3602360 swift/model/npu_patch/env.py
_DEFAULTS = {"HCCL_CONNECT_TIMEOUT": "600"}
#: Names of one setting, of which at most one may be set (the second from torch 2.10 on).
_ALLOCATOR = ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
#: Sequences of many lengths fragment memory otherwise. Source: Ascend/pytorch docs/zh/api/environment_variable
_SEGMENTS = "expandable_segments:True"


class AscendBackend(Backend):
    """Ascend 910 (A1), 910B (A2), 910C (A3), 950 (A5) and 310P."""

    name = "ascend"
    torch_types = ("npu",)
    also_called = ("huawei", "cann", "910b")
    visible_devices_env = ("ASCEND_RT_VISIBLE_DEVICES",)

    def probe(self, host: Host) -> Probe:
        package = host.package("torch_npu", "torch-npu")
        root = next((r for r in _roots(host) if host.exists(r)), None)
        library = _library(host)
        nodes = host.glob("/dev/davinci[0-9]*")
        nowhere = f"not on LD_LIBRARY_PATH nor below {', '.join(_roots(host))}"
        evidence = (
            f"Python package torch_npu: {package or 'not installed'}",
            f"CANN's libascendcl.so: {library or nowhere}"
            + (" (hetero's emulator: there is no chip)" if host.emulated(library) else ""),
            f"device nodes: {', '.join(nodes) or 'no /dev/davinci*'}",
        )
        versions = {"torch": host.torch_version}
        if package:
            versions["torch_npu"] = package
        cann = re.search(r"[Vv]ersion\s*=\s*\"?([\w.]+)", _first(host, root))
        if cann:
            versions["cann"] = cann[1]
        conflicts = tuple(_conflicts(host, package, library))
        if package and not library:
            return Probe("broken", SPECIFIC, evidence, conflicts, versions, install=_INSTALL, error=_AUTOLOAD)
        state = "found" if package and library else "absent"
        return Probe(state, SPECIFIC, evidence, conflicts, versions, install=_INSTALL)

    def load(self) -> None:
        set_defaults(os.environ)
        npu = importlib.import_module("torch_npu").npu
        npu.set_compile_mode(jit_compile=False)  # the default on some SoCs, and it compiles per shape
        npu.config.allow_internal_format = False  # private formats break views and HCCL
        # It warns of what was just asked for.
        warnings.filterwarnings("ignore", message="Cannot create tensor with internal format")

    def identity(self, index: int) -> Identity:
        name = self.module().get_device_name(index)
        here = Host.here()
        versions = {"torch_npu": here.package("torch_npu", "torch-npu"), "driver": _driver_version(here)}
        drivers = {k: v for k, v in versions.items() if v}
        return Identity(name, self.table().arch(name), drivers, here.emulated(_library(here)))

    def caps(self, index: int) -> Caps:
        answered = {}
        if Host.here().package("triton", "triton-ascend") is None:
            answered["triton"] = Cap("no", why="triton-ascend is not installed")
        identity = self.identity(index)
        if identity.emulated:
            answered["graph_capture"] = Cap("no", why="hetero's emulator of CANN captures no graphs")
        found = self.table().caps(identity.name, **answered)
        return replace(found, peaks={}) if identity.emulated else found  # it has none of the chip's speed

    def comm(self) -> CommSpec | None:
        return CommSpec(
            "hccl",
            library="HCCL",
            # HCCL takes int8 and int16 as well, torch_npu documents neither for all_reduce.
            reduce_dtypes=("int32", "int64", "float16", "bfloat16", "float32"),
            reduce_except=(("product", "bfloat16"),),
            unverified=("gather", "gather_object"),
            bytes_as="int8",  # all_gather and reduce_scatter are documented for int8, not for uint8
            by_messages=("all_to_all",),  # documented for float32 alone
            lists_at=(3, 5, 6, 7),
            note=_COMM_NOTE,
            source="hicann/hccl docs/zh/api_ref/comm_op_interface/HcclAllReduce.md; Ascend/pytorch@9e73e70 "
            "docs/zh/api/native_api/pytorch_2-7-1/torch-distributed.md, pytorch_2-13-0 the same",
        )

    def ops(self) -> Iterable[Impl]:
        from hetero.backends.ascend.ops import impls

        return impls()

    def launch_env(self) -> dict[str, str]:
        return dict(_DEFAULTS) if _ALLOCATOR[1] in os.environ else {**_DEFAULTS, _ALLOCATOR[0]: _SEGMENTS}


def set_defaults(env: MutableMapping[str, str]) -> None:
    """Put what training needs into ``env`` where the user has said nothing.

    torch_npu and HCCL read it when a device or a group is first used, and torch_npu may be imported with torch: this
    comes before the first use, not always before the import.
    """
    for name, value in _DEFAULTS.items():
        env.setdefault(name, value)
    if not any(name in env for name in _ALLOCATOR):  # torch_npu ends the process where both are set
        env[_ALLOCATOR[0]] = _SEGMENTS


def _library(host: Host) -> str | None:
    return host.library("libascendcl.so", *(f"{root}/lib64" for root in _roots(host)))


def _roots(host: Host) -> tuple[str, ...]:
    given = (host.env.get(name) for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"))
    return tuple(dict.fromkeys((*filter(None, given), *_ROOTS)))


def _first(host: Host, root: str | None) -> str:
    """Text of the first version file CANN has left below ``root``."""
    files = () if root is None else host.glob(f"{root}/*-linux/ascend_toolkit_install.info")
    return next((text for f in files if (text := host.read(f))), "")


def _driver_version(host: Host) -> str | None:
    match = re.search(r"^Version\s*=\s*(\S+)", host.read(_DRIVER_VERSION) or "", re.MULTILINE)
    return match[1] if match else None


def _conflicts(host: Host, package: str | None, library: str | None) -> list[str]:
    found = []
    if "torch_npu.contrib.transfer_to_npu" in host.modules or host.env.get("TORCH_TRANSFER_TO_NPU") == "1":
        found.append(
            "transfer_to_npu makes torch.cuda answer for the NPU: turn it off, hetero needs none of it"
        )
    torch = re.match(r"\d+\.\d+\.\d+", host.torch_version)
    if package and torch and not package.startswith(torch[0]):
        found.append(f"torch_npu {package} was built for another torch than {host.torch_version}")
    if library and library.rpartition("/")[0] not in host.env.get("LD_LIBRARY_PATH", "").split(":"):
        found.append(f"{library} is not on LD_LIBRARY_PATH: source set_env.sh if torch_npu cannot load")
    return found


backend = AscendBackend()
