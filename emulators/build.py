"""Builds C++ libraries on first use, into the user's cache.

A library's folder is named after a hash of all that went into it: sources, headers, flags, compiler, torch and
whatever else its target names. Objects are kept under hashes of their own, so that after a change of one source
one is compiled. Two processes never build the same target at once, and a folder appears when it is whole.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetero.emulators import cache, toolchain
from hetero.emulators.progress import Progress
from hetero.errors import EmulatorError

#: Memory that compiling one source against torch may take.
_JOB_BYTES = 5 << 28
#: Sources from which on a precompiled header saves more than it costs.
_WORTH_PRECOMPILING = 4


@dataclass(frozen=True)
class Library:
    """One shared library.

    Args:
        name: file name, ``"libopapi.so"``.
        sources: patterns of its sources, relative to the target's root.
        includes: folders of our own headers, relative to the root; files in them count as sources.
        system: other include folders, absolute; what is in them is told apart by the target's ``versions``.
        flags: more compiler flags (``"-std=c++20"``).
        links: linker flags; libraries that were built earlier for the same target are found.
        aliases: other names for the same file.
        torch: compiled and linked against the installed torch.
        python: a Python extension module (pybind11's headers come with torch).
        precompiled: a header that all sources include first and that is slow to read (torch's are).
    """

    name: str
    sources: tuple[str, ...]
    includes: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    flags: tuple[str, ...] = ("-std=c++17",)
    links: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    torch: bool = False
    python: bool = False
    precompiled: str = ""


@dataclass(frozen=True)
class Target:
    """Libraries that are built together.

    Args:
        name: of the folder in the cache.
        about: what to call it in a progress line.
        root: folder of the sources.
        libraries: in the order in which they are linked.
        versions: what else makes a result another one: ``{"torch_npu": "2.13.0"}``.
        files: small files to put beside the libraries' folder, by relative path; ``None`` makes a folder.
    """

    name: str
    about: str
    root: Path
    libraries: tuple[Library, ...]
    versions: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str | None], ...] = ()


def build(target: Target, *, warnings: bool = False) -> Path:
    """The folder of ``target``'s libraries (in ``lib64``), built if this very one is not there yet.

    Args:
        warnings: show what the compiler warns of in the sources that are compiled.

    Raises:
        EmulatorError: no compiler, or a source does not compile; the message has the first errors.
    """
    plan = _Plan(target)
    if plan.folder.is_dir():
        return cache.touch(plan.folder)
    with cache.locked(target.name):
        if not plan.folder.is_dir():
            plan.run(warnings)
            cache.prune(plan.objects, cache.folder())
    return plan.folder


def build_extension(
    name: str,
    root: Path,
    sources: Sequence[str],
    *,
    about: str = "",
    includes: Sequence[str] = (),
    system: Sequence[str] = (),
    flags: Sequence[str] = ("-std=c++20",),
    links: Sequence[str] = (),
    versions: Sequence[tuple[str, str]] = (),
    warnings: bool = False,
) -> Path:
    """A Python extension module ``name`` from C++ ``sources``, built if needed; returns its file.

    ``includes`` are our own headers below ``root``; ``system`` holds absolute folders whose content ``versions``
    tells apart. torch's and Python's headers (pybind11 among them) are found by themselves. Import the file
    with :func:`importlib.util.spec_from_file_location`.

    Raises:
        EmulatorError: see :func:`build`.
    """
    file = name + sysconfig.get_config_var("EXT_SUFFIX")
    library = Library(
        file, tuple(sources), tuple(includes), tuple(system), tuple(flags), tuple(links), (), True, True
    )
    built = build(Target(name, about or name, root, (library,), tuple(versions)), warnings=warnings)
    return built / "lib64" / file


@dataclass(frozen=True)
class _Object:
    source: Path
    command: tuple[str, ...]  # without source and output
    file: Path
    read: tuple[tuple[Path, str], ...]  # the source and our headers that it includes, with their hashes


class _Plan:
    """What has to be compiled and linked for a target, and under which names it is kept."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.compiler = toolchain.compiler()
        self.objects = cache.folder() / "objects"
        self.steps = [(library, self._objects(library)) for library in target.libraries]
        key = _hash(
            [o.file.name for _, objects in self.steps for o in objects],
            [(x.name, x.links, x.aliases) for x in target.libraries],
            target.versions,
            target.files,
        )
        self.folder = cache.folder() / f"{target.name}-{key}"

    def _objects(self, library: Library) -> list[_Object]:
        root = self.target.root
        sources = sorted({path for pattern in library.sources for path in root.glob(pattern)})
        if not sources:
            raise EmulatorError(f"{library.name}: there is no {' or '.join(library.sources)} below {root}")
        own = [root / folder for folder in library.includes]
        system = [*library.system]
        versions = [self.compiler.version, *self.target.versions]
        if library.torch:
            system += map(str, toolchain.torch_includes())
            versions.append(("torch", toolchain.torch_version()))
        if library.python:
            system.append(sysconfig.get_path("include"))
            versions.append(("python", str(sysconfig.get_config_var("EXT_SUFFIX"))))
        flags = ("-O1", "-g0", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", *library.flags)
        command = (
            *self.compiler.command, *flags,
            *(f"-I{folder}" for folder in own), *(f for folder in system for f in ("-isystem", folder)),
        )  # fmt: skip
        found = []
        for source in sources:
            read = tuple((path, _digest(path)) for path in _closure(source, own))
            key = _hash(flags, versions, [(os.path.relpath(path, root), digest) for path, digest in read])
            found.append(_Object(source, command, self.objects / f"{source.stem}-{key}.o", read))
        return found

    def run(self, warnings: bool) -> None:
        self.objects.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self.objects.parent) as scratch:
            tasks = self._compilations(Path(scratch))
            progress = Progress(f"building {self.target.about}", len(tasks) + len(self.steps))
            with progress:
                for said in _parallel(tasks, progress):
                    if said and warnings:
                        print(said, file=sys.stderr)
                self._publish(progress)

    def _compilations(self, scratch: Path) -> list[Callable[[], str]]:
        """What is to be compiled; what waits for a precompiled header comes last."""
        first: list[Callable[[], str]] = []
        middle: list[Callable[[], str]] = []
        last: list[Callable[[], str]] = []
        for library, objects in self.steps:
            missing = [o for o in objects if not o.file.exists()]
            if library.precompiled and len(missing) >= _WORTH_PRECOMPILING and not self.compiler.clang:
                header = _Header(self.target.root / library.precompiled, missing[0].command, scratch)
                first.append(header.make)
                last += [functools.partial(_compile, o, header) for o in missing]
            else:
                middle += [functools.partial(_compile, o) for o in missing]
        return first + middle + last

    def _publish(self, progress: Progress) -> None:
        with cache.publish(self.folder) as made:
            lib = made / "lib64"
            lib.mkdir()
            for library, objects in self.steps:
                self._link(library, objects, lib)
                progress.advance()
            for name, text in (*self.target.files, ("build.json", self._facts())):
                path = made / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.mkdir() if text is None else path.write_text(text, encoding="utf-8")

    def _link(self, library: Library, objects: list[_Object], lib: Path) -> None:
        torch = toolchain.torch_libraries(library.python) if library.torch else ()
        for used in objects:
            cache.touch(used.file)
        _run(
            [*self.compiler.command, "-shared", "-o", str(lib / library.name), f"-Wl,-soname,{library.name}",
             *(str(o.file) for o in objects), f"-L{lib}", *library.links, *torch],
            f"linking {library.name}",
        )  # fmt: skip
        for alias in library.aliases:
            (lib / alias).symlink_to(library.name)

    def _facts(self) -> str:
        facts = dict(self.target.versions) | {
            "name": self.target.name,
            "compiler": self.compiler.version,
            "torch": toolchain.torch_version(),
        }
        return json.dumps(facts, indent=2) + "\n"


class _Header:
    """A precompiled header, for the time of one build: it is large."""

    def __init__(self, header: Path, command: Sequence[str], scratch: Path) -> None:
        self._file = scratch / f"{header.stem}.precompiled.h"
        self._file.write_text(f'#include "{header}"\n', encoding="utf-8")
        self._command = [*command, "-x", "c++-header", str(self._file), "-o", f"{self._file}.gch"]
        self._made = threading.Event()

    def make(self) -> str:
        try:
            return _run(self._command, f"compiling {self._file.name}")
        finally:
            self._made.set()

    def flags(self) -> tuple[str, str]:
        """Compiler flags that use it; waits until it is there."""
        self._made.wait()
        return "-include", str(self._file)


def _compile(one: _Object, header: _Header | None = None) -> str:
    more = () if header is None else header.flags()
    temporary = one.file.with_suffix(f".{os.getpid()}.tmp.o")
    try:
        said = _run(
            [*one.command, *more, "-c", str(one.source), "-o", str(temporary)], f"compiling {one.source}"
        )
        _unchanged(one)
        temporary.rename(one.file)
    except EmulatorError:
        _unchanged(one)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return said


def _unchanged(one: _Object) -> None:
    """Somebody who edits a source while it is being built must not get an object under the hash of the old one."""
    for path, digest in one.read:
        if _digest(path) != digest:
            raise EmulatorError(f"{path} was changed while it was being built: start again")


def _run(command: list[str], doing: str) -> str:
    """What the command said; raises with its first errors when it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    if done.returncode:
        lines = done.stdout.splitlines()
        first = next((i for i, line in enumerate(lines) if re.search(r"\b(error|undefined)\b", line)), 0)
        shown = (
            "\n".join(f"  {line}" for line in lines[first : first + 20]) or f"  exit code {done.returncode}"
        )
        raise EmulatorError(f"{doing} failed:\n{shown}\nThe command was:\n  {shlex.join(command)}")
    return done.stdout


def _parallel(tasks: list[Callable[[], str]], progress: Progress) -> list[str]:
    """Run ``tasks`` on all cores; after a failure no further one is begun."""
    with concurrent.futures.ThreadPoolExecutor(_jobs()) as pool:
        running = [pool.submit(task) for task in tasks]
        try:
            for one in concurrent.futures.as_completed(running):
                one.result()
                progress.advance()
        except BaseException:
            for one in running:
                one.cancel()
            raise
    return [one.result() for one in running]


def _jobs() -> int:
    memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), memory // _JOB_BYTES))


def _closure(source: Path, folders: Sequence[Path]) -> list[Path]:
    """``source`` and all headers of ours that it includes in quotes, directly or not."""
    found: list[Path] = []
    waiting = [source]
    while waiting:
        path = waiting.pop().resolve()
        if path in found:
            continue
        found.append(path)
        for name in _includes(path):
            places = (place / name for place in (path.parent, *folders))
            waiting += [p for p in places if p.is_file()][:1]
    return sorted(found)


def _includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
