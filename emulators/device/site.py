"""The folder of packages that an emulated process has first on its path.

For ``cuda`` and ``metax`` it holds a torch of its own: the installed one, file by file through links, but with a
``version.py`` that says what the vendor's build says and that starts the devices. Nothing of the installed torch is
changed, and a process without the folder on its path sees nothing of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from hetero.emulators import cache, toolchain
from hetero.emulators.device import libraries


def make(
    name: str,
    version: Mapping[str, str | None] | None,
    packages: Mapping[str, Path],
    texts: Mapping[str, str],
) -> Path:
    """The folder of emulator ``name``, made if it is not there.

    Args:
        version: what torch's ``version.py`` says instead of its own; None where torch stays the installed one.
        packages: folders to be importable, by name.
        texts: files to write, by relative path.
    """
    lib = libraries.prepare()
    torch = toolchain.torch_folder()
    entries = sorted(p.name for p in torch.iterdir()) if version is not None else []
    facts = [
        name, str(lib), str(torch), toolchain.torch_version(), entries, version,
        {k: str(v) for k, v in packages.items()}, dict(texts), Path(__file__).read_text(encoding="utf-8"),
    ]  # fmt: skip
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    site = cache.folder() / f"site-{name.replace(':', '-')}-{key}"
    if site.is_dir():
        return cache.touch(site)
    with cache.locked(site.name):
        if not site.is_dir():
            with cache.publish(site) as made:
                _fill(made, name, lib, torch, version, packages, texts)
    return site


def _fill(
    made: Path,
    name: str,
    lib: Path,
    torch: Path,
    version: Mapping[str, str | None] | None,
    packages: Mapping[str, Path],
    texts: Mapping[str, str],
) -> None:
    (made / "lib").symlink_to(lib)
    (made / "emulator.json").write_text(
        json.dumps({"emulates": name, "by": "hetero"}) + "\n", encoding="utf-8"
    )
    for package, folder in packages.items():
        (made / package).symlink_to(folder)
    for relative, text in texts.items():
        path = made / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if version is not None:
        _torch(made, name, torch, version)


def _torch(made: Path, name: str, torch: Path, version: Mapping[str, str | None]) -> None:
    (made / "torch").mkdir()
    for path in torch.iterdir():
        if path.name not in ("version.py", "__pycache__"):
            (made / "torch" / path.name).symlink_to(path)
    own = (torch / "version.py").read_text(encoding="utf-8")
    for constant, value in version.items():
        own, changed = re.subn(rf"(?m)^({constant})\b([^=\n]*)=.*$", rf"\g<1>\g<2>= {value!r}", own)
        if not changed:
            own += f"{constant} = {value!r}\n"
    (made / "torch" / "version.py").write_text(f"{own}\n{_START.format(name=name)}", encoding="utf-8")
    label = version["__version__"]
    info = made / f"torch-{label}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torch\nVersion: {label}\n", encoding="utf-8"
    )


#: The end of that version.py. torch's __init__ reads it before it loads its own libraries.
_START = """
import pathlib as _pathlib

from hetero.emulators import {name} as _emulator

_site = _pathlib.Path(__file__).parent.parent
_emulator.before_torch(_site, _site / "torch")
"""
