"""Facts about this machine and Python environment that probes decide by, gathered without side effects.

A probe sees the machine only through a :class:`Host`. Nothing here imports a vendor package, starts a
process or touches a device, so probing is quick, leaves fork safe, and can be tested against a made-up
file tree. The build of torch is read from its ``version.py``, which tells the truth even where a
plugin has replaced ``torch.cuda`` and ``torch.version.cuda`` in memory.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

#: Where shared libraries lie when neither LD_LIBRARY_PATH nor the vendor's root says so.
_LIBRARY_DIRS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/wsl/lib",
)


@dataclass(frozen=True)
class Host:
    """A machine: its files below ``root``, environment, installed packages and loaded modules.

    Args:
        root: what absolute paths are looked up below.
        env: environment variables.
        search: directories Python packages are looked up in; None means ``sys.path``.
        modules: names of the modules loaded so far.
    """

    root: Path = Path("/")
    env: Mapping[str, str] = field(default_factory=dict)
    search: Sequence[str] | None = None
    modules: frozenset[str] = frozenset()

    @classmethod
    def here(cls) -> Host:
        """This process's own machine."""
        return cls(env=dict(os.environ), modules=frozenset(sys.modules))

    # -- files
    def path(self, absolute: str) -> Path:
        """``absolute`` below ``root``."""
        return self.root / absolute.lstrip("/")

    def exists(self, absolute: str) -> bool:
        return self.path(absolute).exists()

    def glob(self, pattern: str) -> list[str]:
        """Absolute paths that match ``pattern``, sorted."""
        return sorted("/" + str(p.relative_to(self.root)) for p in self.root.glob(pattern.lstrip("/")))

    def read(self, absolute: str) -> str | None:
        """Text of a file; None where it is absent or unreadable."""
        try:
            return self.path(absolute).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def which(self, command: str, *more: str) -> str | None:
        """Path of ``command`` on PATH, or the first of ``more`` that exists."""
        on_path = (f"{d}/{command}" for d in self.env.get("PATH", "").split(os.pathsep) if d)
        return next((p for p in (*on_path, *more) if self.path(p).is_file()), None)

    def library(self, name: str, *roots: str) -> str | None:
        """Path of shared library ``name`` in LD_LIBRARY_PATH, then ``roots``, then the system's places."""
        given = [d for d in self.env.get("LD_LIBRARY_PATH", "").split(os.pathsep) if d]
        paths = (f"{d}/{name}" for d in (*given, *roots, *_LIBRARY_DIRS))
        return next((p for p in paths if self.exists(p)), None)

    def emulated(self, library: str | None) -> bool:
        """Whether ``library`` is no vendor's but belongs to one of hetero's emulators, which mark their folders."""
        return library is not None and self.exists(f"{library.rsplit('/', 2)[0]}/emulator.json")

    # -- Python packages
    def package(self, module: str, *distributions: str) -> str | None:
        """Version of the importable top-level ``module``; None where absent, ``"?"`` without metadata.

        ``distributions`` are the names it may be installed under, if not ``module`` itself. The module
        is located, never imported.
        """
        if self._spec(module) is None:
            return None
        for name in distributions or (module,):
            version = self._version(name)
            if version is not None:
                return version
        return "?"

    def origin(self, module: str) -> str | None:
        """File of the importable top-level ``module``, which is located and not imported."""
        spec = self._spec(module)
        return None if spec is None else spec.origin

    @cached_property
    def torch(self) -> Mapping[str, str | None]:
        """Constants of torch's ``version.py`` (``__version__``, ``cuda``, ``hip``)."""
        source = self.torch_source("version.py")
        return _constants(source) if source else {"__version__": self._version("torch")}

    def torch_source(self, relative: str) -> str:
        """Text of one of torch's Python files (``"utils/cpp_extension.py"``); empty where absent."""
        spec = self._spec("torch")
        path = None if spec is None or spec.origin is None else Path(spec.origin).parent / relative
        return (
            path.read_text(encoding="utf-8", errors="replace") if path is not None and path.is_file() else ""
        )

    @property
    def torch_version(self) -> str:
        """Full version of torch, local label included; ``""`` without torch."""
        return self.torch.get("__version__") or ""

    def _spec(self, module: str) -> importlib.machinery.ModuleSpec | None:
        if self.search is not None:
            return importlib.machinery.PathFinder.find_spec(module, list(self.search))
        try:
            return importlib.util.find_spec(module)
        except ValueError:  # a module put into sys.modules by hand has no spec
            return importlib.machinery.PathFinder.find_spec(module)

    def _version(self, distribution: str) -> str | None:
        path = sys.path if self.search is None else list(self.search)
        found = next(iter(importlib.metadata.distributions(name=distribution, path=path)), None)
        return None if found is None else found.version


def _constants(source: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target: ast.expr = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant):
            value = node.value.value
            found[target.id] = None if value is None else str(value)
    return found
