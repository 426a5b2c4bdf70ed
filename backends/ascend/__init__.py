"""Huawei Ascend NPUs: ``torch_npu`` over CANN; the torch device type is ``npu``."""

from __future__ import annotations

import importlib
import re

from hetero.accelerator.backend import SPECIFIC, Backend, CommSpec, Identity, Probe
from hetero.accelerator.caps import Cap, Caps
from hetero.accelerator.host import Host

_ROOTS = ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann")
_DRIVER_VERSION = "/usr/local/Ascend/driver/version.info"
_INSTALL = (
    "the Ascend driver and CANN, `source .../ascend-toolkit/set_env.sh`, then the torch_npu that matches "
    "torch (`pip install torch-npu==TORCH_VERSION`, or `pip install 'hetero[ascend]'`)"
)
_AUTOLOAD = (
    "torch_npu is installed without CANN, so a plain `import torch` raises: set "
    "TORCH_DEVICE_BACKEND_AUTOLOAD=0, or `pip uninstall torch-npu`, or install CANN and source its set_env.sh"
)


_COMM_NOTE = (
    "sum and divide instead of AVG; all_gather_into_tensor and reduce_scatter_tensor are documented "
    "as unsupported for 3, 5, 6 and 7 ranks; each process group takes 2 x HCCL_BUFFSIZE on the device"
)


class AscendBackend(Backend):
    """Ascend 910 (A1), 910B (A2), 910C (A3), 950 (A5) and 310P."""

    name = "ascend"
    torch_types = ("npu",)
    also_called = ("huawei", "cann", "910b")
    visible_devices_env = ("ASCEND_RT_VISIBLE_DEVICES",)

    def probe(self, host: Host) -> Probe:
        package = host.package("torch_npu", "torch-npu")
        root = next((r for r in _roots(host) if host.exists(r)), None)
        library = host.library("libascendcl.so", *(f"{root}/lib64" for root in _roots(host)))
        nodes = host.glob("/dev/davinci[0-9]*")
        nowhere = f"not on LD_LIBRARY_PATH nor below {', '.join(_roots(host))}"
        evidence = (
            f"Python package torch_npu: {package or 'not installed'}",
            f"CANN's libascendcl.so: {library or nowhere}",
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
        npu = importlib.import_module("torch_npu").npu
        npu.set_compile_mode(jit_compile=False)  # the default on some SoCs, and it compiles per shape
        npu.config.allow_internal_format = False  # private formats break views and HCCL

    def identity(self, index: int) -> Identity:
        name = self.module().get_device_name(index)
        here = Host.here()
        versions = {"torch_npu": here.package("torch_npu", "torch-npu"), "driver": _driver_version(here)}
        return Identity(name, self.table().arch(name), {k: v for k, v in versions.items() if v})

    def caps(self, index: int) -> Caps:
        answered = {}
        if Host.here().package("triton", "triton-ascend") is None:
            answered["triton"] = Cap("no", why="triton-ascend is not installed")
        return self.table().caps(self.identity(index).name, **answered)

    def comm(self) -> CommSpec | None:
        return CommSpec(
            "hccl",
            library="HCCL",
            reduce_dtypes=("int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
            unverified=("gather", "gather_object"),
            note=_COMM_NOTE,
            source="hicann/hccl docs/zh/api_ref/comm_op_interface/HcclAllReduce.md; Ascend/pytorch@9e73e70 "
            "docs/zh/api/native_api/pytorch_2-7-1/torch-distributed.md",
        )

    def launch_env(self) -> dict[str, str]:
        return {"HCCL_CONNECT_TIMEOUT": "600"}  # seconds; the default of 120 is short for large models


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
