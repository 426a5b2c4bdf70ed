"""``hetero new-backend``: write a third-party backend plugin that works as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def new_backend(
    name: Annotated[str, typer.Argument(help="The vendor's name, as users will write it: --device=NAME.")],
    dir: Annotated[Path | None, typer.Option(help="Where to write it. Default: ./hetero-NAME")] = None,
) -> None:
    """Write a complete backend plugin package: it installs, and passes conformance level 0, as it stands."""
    target = dir or Path(f"hetero-{name}")
    files = write(name, target)
    print(f"Wrote {len(files)} files to {target}:")
    for file in files:
        print(f"  {file}")
    print(f"Next: pip install -e {target} --no-build-isolation && pytest {target}/tests, then its README.md")


def write(name: str, target: Path) -> list[Path]:
    """Write the plugin ``name`` into ``target``; returns the files, relative to it.

    Raises:
        BackendError: the name cannot be used, or ``target`` is not empty.
    """
    import keyword
    import re
    from importlib import resources

    from hetero.accelerator import registry
    from hetero.errors import BackendError

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise BackendError(f"backend name {name!r}: want lower-case letters, digits and _, such as 'acme'")
    taken = registry.record(name)
    if taken is not None:
        raise BackendError(f"backend name {name!r} is taken by {taken.package}: choose another")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackendError(f"{target} exists and is not empty: choose another place with --dir")
    template = Path(str(resources.files("hetero.backends") / "_template"))
    written = []
    for source in sorted(p for p in template.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        relative = Path(_named(str(source.relative_to(template)), name))
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        (target / relative).write_text(_named(source.read_text(encoding="utf-8"), name), encoding="utf-8")
        written.append(relative)
    return written


def _named(text: str, name: str) -> str:
    """The template's text for plugin ``name``: the template is a working plugin called acme."""
    return text.replace("acme", name).replace("Acme", "".join(part.capitalize() for part in name.split("_")))
