"""Made-up machines: a file tree, an environment and installed packages, for probes to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetero.accelerator import Host


class Machine:
    """Build it up with ``torch``, ``package``, ``file`` and ``env``; ``host()`` is what a probe sees."""

    def __init__(self, root: Path) -> None:
        self.root, self.site = root / "root", root / "site"
        self.root.mkdir()
        self.site.mkdir()
        self.env: dict[str, str] = {}
        self.modules: set[str] = set()

    def package(self, module: str, version: str, distribution: str = "") -> None:
        """Install ``module``; importing it raises, so a probe that imports it is found out."""
        (self.site / module).mkdir(exist_ok=True)
        (self.site / module / "__init__.py").write_text("raise AssertionError('a probe imported this')\n")
        info = self.site / f"{module}-{version}.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: {distribution or module}\nVersion: {version}\n"
        (info / "METADATA").write_text(text)

    def torch(self, version: str, cuda: str | None = None, hip: str | None = None, fork: str = "") -> None:
        """Install a torch whose build constants are these; ``fork`` is its ``utils/cpp_extension.py``."""
        self.package("torch", version)
        text = f"__version__ = {version!r}\ncuda: Optional[str] = {cuda!r}\nhip = {hip!r}\n"
        (self.site / "torch" / "version.py").write_text(text)
        (self.site / "torch" / "utils").mkdir()
        (self.site / "torch" / "utils" / "cpp_extension.py").write_text(fork)

    def file(self, path: str, text: str = "") -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def nvidia(self) -> None:
        self.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Kernel Module  550.54.15  Tue\n")
        self.file("/dev/nvidia0")

    def host(self) -> Host:
        return Host(self.root, dict(self.env), [str(self.site)], frozenset(self.modules))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
