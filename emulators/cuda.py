"""The CUDA emulator: torch's ``cuda`` device on a CPU build of torch, whose ``torch.cuda`` runs unmodified."""

from __future__ import annotations

from pathlib import Path

from hetero.emulators import toolchain
from hetero.emulators.device import chips, settings, site
from hetero.emulators.device.emulator import DeviceEmulator

CUDA = "12.8"
_ARCHS = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"


class CudaEmulator(DeviceEmulator):
    """See the module."""

    name = "cuda"
    about = "NVIDIA GPUs: torch's own torch.cuda, over a cuda device that computes on the CPU"

    def site(self) -> Path:
        version = toolchain.torch_version().partition("+")[0] + "+cu" + CUDA.replace(".", "")
        return site.make(self.name, {"__version__": version, "cuda": CUDA}, {}, {})


def before_torch(folder: Path, torch: Path) -> None:
    """Start the devices, for the emulated torch's ``version.py``."""
    from hetero.emulators.device import torch_cuda

    given = settings.here(chips.CUDA, ("CUDA_VISIBLE_DEVICES",))
    torch_cuda.before_torch(folder, torch, given, archs=_ARCHS, cuda=CUDA)


EMULATOR = CudaEmulator()
