"""The Biren emulator: PrivateUse1 as ``supa``, behind facades of the vendor's two incompatible packages."""

from __future__ import annotations

from pathlib import Path

from hetero.emulators import device, toolchain
from hetero.emulators.device import site
from hetero.emulators.device.emulator import DeviceEmulator
from hetero.errors import EmulatorError

_FACADES = Path(device.__file__).parent / "facades"
#: product line -> its package, the package's version without torch's number, whether `import torch` loads it
_LINES = {"br2xx": ("torch_supa", "1.0.0", True), "br1xx": ("torch_br", "1.10.0", False)}


class BirenEmulator(DeviceEmulator):
    """See the module. ``biren`` and ``biren:br2xx`` are torch_supa's line, ``biren:br1xx`` torch_br's."""

    about = (
        "Biren GPUs: facades of torch_supa (biren) and torch_br (biren:br1xx), over a supa device on the CPU"
    )

    def __init__(self, line: str = "") -> None:
        self.name = f"biren:{line}" if line else "biren"
        self._line = line or "br2xx"
        self.module = _LINES[self._line][0]

    def variant(self, name: str) -> BirenEmulator:
        if name not in _LINES:
            raise EmulatorError(f"there is no emulator 'biren:{name}'; there is: biren:br1xx, biren:br2xx")
        return BirenEmulator(name)

    def site(self) -> Path:
        package, version, autoload = _LINES[self._line]
        major, minor, patch = (int(n) for n in toolchain.torch_version().partition("+")[0].split(".")[:3])
        label = f"{version}.{major * 10000 + minor * 100 + patch}+{self._line}"
        info = f"{package}-{label}.dist-info"
        files = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {label}\n"}
        if autoload:
            files[f"{info}/entry_points.txt"] = f"[torch.backends]\n{package} = {package}:_autoload\n"
        return site.make(self.name, None, {package: _FACADES / package}, files)


EMULATOR = BirenEmulator()
