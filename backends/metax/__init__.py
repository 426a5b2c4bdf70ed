"""MetaX GPUs (MACA): the vendor's own torch build, whose device type is ``cuda``."""

from __future__ import annotations

import re
from pathlib import Path

from hetero.accelerator.backend import SPECIFIC, Backend, CommSpec, Identity, Probe
from hetero.accelerator.caps import Cap, Caps
from hetero.accelerator.host import Host

_ROOT = "/opt/maca"
_INSTALL = (
    "MetaX's driver and MACA, and MetaX's build of torch: `pip install --no-deps torch==VERSION+metaxMACA` "
    "from MetaX's package index. Anything that pulls in torch from elsewhere replaces it"
)


class MetaxBackend(Backend):
    """MetaX C500, C550 and their kin. Everything is ``torch.cuda``; only the identity tells."""

    name = "metax"
    torch_types = ("cuda",)
    also_called = ("maca", "mxmaca", "muxi")
    visible_devices_env = ("MACA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")

    def probe(self, host: Host) -> Probe:
        root = host.env.get("MACA_PATH", _ROOT)
        built, tool = _is_metax_build(host), host.which("mx-smi", "/opt/mxdriver/bin/mx-smi")
        driver = "/dev/mxcd" if host.exists("/dev/mxcd") else tool
        evidence = (
            f"torch {host.torch_version or 'is not installed'}: {'' if built else 'not '}MetaX's build",
            f"driver: {driver or 'neither /dev/mxcd nor mx-smi'}",
            f"MACA: {root if host.exists(root) else f'no {root}'}",
        )
        versions = {"torch": host.torch_version}
        maca = re.search(r"\d+(?:\.\d+)+", host.read(f"{root}/Version.txt") or "")
        if maca:
            versions["maca"] = maca[0]
        conflicts = []
        if driver and not built:
            conflicts.append(
                f"MetaX's driver is here but torch {host.torch_version} is not its build: was it replaced?"
            )
        visible = [host.env[v] for v in self.visible_devices_env if v in host.env]
        if len(set(visible)) > 1:
            conflicts.append("MACA_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES differ; the former wins")
        state = "found" if built and driver else "absent"
        return Probe(state, SPECIFIC, evidence, tuple(conflicts), versions, install=_INSTALL)

    def identity(self, index: int) -> Identity:
        import torch

        name = torch.cuda.get_device_name(index)
        arch = self.table().arch(name)
        if arch == "unknown":  # names can be masked ("Device 4000"); the capability then tells the family
            arch = self.table().arch("capability {}.{}".format(*torch.cuda.get_device_capability(index)))
        return Identity(name, arch, _maca())

    def caps(self, index: int) -> Caps:
        import torch

        name = self.identity(index).name
        answered = {"cuda_compat": Cap("yes", value="{}.{}".format(*torch.cuda.get_device_capability(index)))}
        here = Host.here()
        if "MACA_PATH" not in here.env:
            answered["triton"] = Cap("no", why="MACA_PATH must be set before triton is imported")
        elif here.package("triton") is None:
            answered["triton"] = Cap("no", why="MetaX's triton package is not installed")
        return self.table().caps(name, **answered)

    def comm(self) -> CommSpec | None:
        return CommSpec(
            "nccl",
            library="MCCL",
            note="several hosts need MCCL_SOCKET_IFNAME and MCCL_IB_HCA; if all_to_all misbehaves, set "
            "PYTORCH_DISABLE_ALLTOALL_OPT=1",
            source="MetaX-MACA/vLLM-metax@3aadf08 vllm_metax/platform.py; modelscope/ms-swift@3602360 "
            "docs/source_en/BestPractices/Metax-support.md",
        )

    def launch_env(self) -> dict[str, str]:
        # MPS mode: without it a second process on a GPU is refused.
        return {"MACA_PATH": _ROOT, "MACA_MPS_MODE": "1"}


def _is_metax_build(host: Host) -> bool:
    """Whether torch is MetaX's: by its version, or by an attribute that only their fork has."""
    return "+metax" in host.torch_version or "MACA_HOME" in host.torch_source("utils/cpp_extension.py")


def _maca() -> dict[str, str]:
    host = Host.here()
    version = Path(host.env.get("MACA_PATH", _ROOT), "Version.txt")
    found = re.search(r"\d+(?:\.\d+)+", host.read(str(version)) or "")
    return {"torch": host.torch_version, **({"maca": found[0]} if found else {})}


backend = MetaxBackend()
