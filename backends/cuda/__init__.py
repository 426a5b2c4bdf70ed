"""NVIDIA GPUs: a CUDA build of torch that is neither MetaX's nor a spoof of another vendor's."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

from hetero.accelerator.backend import GENERIC, Backend, CommSpec, Identity, Probe
from hetero.accelerator.caps import Cap, Caps
from hetero.accelerator.host import Host

#: What a driver leaves on a machine: bare metal and containers, WSL, Jetson.
_DRIVER = (
    "/proc/driver/nvidia/version",
    "/dev/nvidiactl",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/etc/nv_tegra_release",
)
_INSTALL = "an NVIDIA driver, and a CUDA build of torch (pytorch.org, 'Start locally')"


class CudaBackend(Backend):
    """NVIDIA. Its claim on ``cuda`` is generic: whoever has evidence of being another vendor comes first."""

    name = "cuda"
    torch_types = ("cuda",)
    also_called = ("nvidia", "gpu")
    visible_devices_env = ("CUDA_VISIBLE_DEVICES",)

    def probe(self, host: Host) -> Probe:
        cuda = host.torch.get("cuda")
        versions = {"torch": host.torch_version}
        evidence = [f"torch {host.torch_version or 'is not installed'}: {_build(host)}"]
        driver = next((p for p in _DRIVER if host.exists(p)), None)
        nodes = host.glob("/dev/nvidia[0-9]*")
        evidence.append(f"driver: {driver or 'none of ' + ', '.join(_DRIVER)}")
        evidence.append(f"device nodes: {', '.join(nodes) or 'no /dev/nvidia*'}")
        match = re.search(r"Module\s+(\d[\d.]*)", host.read("/proc/driver/nvidia/version") or "")
        versions.update({"cuda": cuda} if cuda else {}, **({"driver": match[1]} if match else {}))
        conflicts = tuple(spoofs(host))
        state = "found" if cuda and driver and not conflicts else "absent"
        return Probe(state, GENERIC, tuple(evidence), conflicts, versions, install=_INSTALL)

    def identity(self, index: int) -> Identity:
        import torch

        major, minor = torch.cuda.get_device_capability(index)
        driver = {"cuda": torch.version.cuda or ""}
        return Identity(torch.cuda.get_device_name(index), f"sm_{major}{minor}", driver)

    def caps(self, index: int) -> Caps:
        import torch

        identity = self.identity(index)
        properties = torch.cuda.get_device_properties(index)
        answered = {"cuda_compat": Cap("yes", value=f"{properties.major}.{properties.minor}")}
        shared = getattr(properties, "shared_memory_per_block_optin", None)
        if shared:
            answered["max_shared_bytes"] = Cap("yes", value=shared, source="torch.cuda.get_device_properties")
        if Host.here().package("triton") is None:
            missing = Cap("no", why="the triton package is not installed")
            answered.update(triton=missing, compile_backend=missing)
        return self.table().caps(identity.arch, chip=identity.name, **answered)

    def comm(self) -> CommSpec | None:
        return CommSpec("nccl", library="NCCL", source="torch.distributed documentation, backends")

    def range(self, name: str) -> AbstractContextManager[Any]:
        import torch

        return torch.cuda.nvtx.range(name)


def spoofs(host: Host) -> list[str]:
    """Why ``torch.cuda`` is not NVIDIA's in this environment, one sentence each."""
    found = []
    if "+metax" in host.torch_version:
        found.append("this torch is MetaX's build: its `cuda` devices belong to backend 'metax'")
    if host.torch.get("hip"):
        found.append("this torch is a ROCm build: its `cuda` devices are AMD's")
    autoload = host.env.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0"
    if host.package("torch_supa") and (autoload or "torch_supa.contrib.transfer_to_supa" in host.modules):
        found.append("torch_supa replaces torch.cuda by Biren's device when torch is imported")
    if "torch_br.contrib.transfer_to_supa" in host.modules:
        found.append("torch_br.contrib.transfer_to_supa has replaced torch.cuda by Biren's device")
    transfer = host.env.get("TORCH_TRANSFER_TO_NPU") == "1" and host.package("torch_npu", "torch-npu")
    if transfer or "torch_npu.contrib.transfer_to_npu" in host.modules:
        found.append("transfer_to_npu replaces torch.cuda by Ascend's device")
    return found


def _build(host: Host) -> str:
    cuda = host.torch.get("cuda")
    return f"built for CUDA {cuda}" if cuda else "not a CUDA build"


backend = CudaBackend()
