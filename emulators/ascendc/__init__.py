"""AscendC on the host: builds ``kernels_ascend/`` with the ordinary C++ compiler, against headers of our own.

The headers (``include/``) check what a vector core would: queues, the unified buffer's size and alignment, bytes never
written, order between the units, bounds of global memory. Docs: docs/kernels_ascend.md.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

from hetero.accelerator.host import Host
from hetero.emulators import toolchain, torch_npu
from hetero.emulators.build import Library, Target, build
from hetero.errors import EmulatorError

#: The folder that holds ``emulators/`` and ``kernels_ascend/``.
ROOT = Path(__file__).resolve().parents[2]
_KERNELS = "kernels_ascend"
_EMULATOR = "emulators/ascendc"


def available() -> bool:
    """Whether the kernels' sources are there to be built."""
    return (ROOT / _KERNELS / "src").is_dir()


@cache
def source_hash() -> str:
    """Changes with any source of the kernels or of the emulator."""
    folders = [
        ROOT / _KERNELS / "src",
        ROOT / _KERNELS / "include",
        ROOT / _EMULATOR / "include",
        ROOT / _EMULATOR / "src",
    ]
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()


def build_module(cann: Path | None = None, headers: tuple[str, ...] = ()) -> Path:
    """Build the kernels' Python module and return its file.

    Args:
        cann: folder of the emulated CANN's libraries: kernels then run on its streams, and global memory must be
            device memory. None: they run at once, on any memory.
        headers: folders of CANN's public headers (``acl/acl.h``), needed with ``cann``.

    Raises:
        EmulatorError: the sources or a compiler are missing, or a source does not compile.
    """
    if not available():
        raise EmulatorError(f"the AscendC kernels' sources are not there: {ROOT / _KERNELS}")
    name = module_name(cann is not None)
    own = "host" if cann is None else "cann"
    sources = (
        f"{_KERNELS}/src/*.asc", f"{_KERNELS}/src/*.cpp",
        *(f"{_EMULATOR}/src/{file}.cpp" for file in ("machine", "launch", f"launch_{own}")),
    )  # fmt: skip
    includes = (f"{_KERNELS}/include", f"{_KERNELS}/src", f"{_EMULATOR}/include")
    system = (str(toolchain.torch_includes()[0]), *headers)  # torch has a copy of pybind11
    versions = [("torch", toolchain.torch_version())]
    links: tuple[str, ...] = ()
    if cann is not None:
        includes += ("emulators/cann/include",)
        links = (f"-L{cann}", "-lascendcl")
    flags = ("-std=c++17", "-DHETERO_ASCENDC_EMULATED", f"-DHETERO_MODULE={name}", "-x", "c++")
    library = Library(f"{name}.so", sources, includes, system, flags, links, python=True)
    target = Target(f"ascendc-{own}", "the AscendC kernels", ROOT, (library,), tuple(versions))
    return build(target) / "lib64" / library.name


@cache
def for_emulated_cann() -> ModuleType:
    """The kernels' module for this process, which runs on an emulated CANN; built on first use.

    Raises:
        EmulatorError: see :func:`build_module`; or this process runs on no emulated CANN.
    """
    host = Host.here()
    library = host.library("libascendcl.so")
    if library is None or not host.emulated(library):
        raise EmulatorError(
            "this process does not run on an emulated CANN: `hetero emulate ascend -- COMMAND`"
        )
    third_party = torch_npu.find().includes
    headers = tuple(str(path) for path in (third_party / "acl" / "inc", third_party))
    return load(build_module(Path(library).parent, headers))


def module_name(on_cann: bool) -> str:
    """Name of the Python module; two, since one process may hold both."""
    return "_ascendc_cann" if on_cann else "_ascendc_host"


def load(file: Path) -> ModuleType:
    """Import the extension module ``file``."""
    loader = importlib.machinery.ExtensionFileLoader(file.name.partition(".")[0], str(file))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
