"""The builder, with a compiler that writes down what it is asked for."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap

import pytest

from hetero.emulators import build, cache, toolchain
from hetero.errors import EmulatorError


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two sources, a header that one of them includes, a compiler that logs; everything in a cache of its own."""
    exported = 'extern "C" __attribute__((visibility("default"))) int'
    files = {
        "src/one.cpp": f'#include "shared.h"\n{exported} one() {{ return ONE; }}',
        "src/two.cpp": f"{exported} two() {{ return 2; }}",
        "include/shared.h": "#define ONE 1",
        "cxx": f'#!/bin/sh\necho "$@" >> {tmp_path}/log\nexec g++ "$@"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "cxx").chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(tmp_path / "cxx"))
    toolchain.compiler.cache_clear()
    yield tmp_path
    toolchain.compiler.cache_clear()


def target(root, versions=(), links=()):
    library = build.Library("libx.so", ("src/*.cpp",), ("include",), links=links, aliases=("liby.so",))
    return build.Target("x", "x", root, (library,), versions, (("opp", None), ("facts.json", "{}")))


def compiled(root):
    """Which sources were compiled since the last call."""
    log = root / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return sorted(word.rsplit("/", 1)[1] for line in lines for word in line.split() if word.endswith(".cpp"))


def test_what_is_built_works_has_its_names_and_is_built_once(project):
    folder = build.build(target(project))
    assert compiled(project) == ["one.cpp", "two.cpp"]
    for name in ("libx.so", "liby.so"):
        assert ctypes.CDLL(str(folder / "lib64" / name)).one() == 1
    assert (folder / "opp").is_dir() and (folder / "facts.json").read_text() == "{}"
    assert build.build(target(project)) == folder and compiled(project) == []


def test_a_changed_source_or_header_compiles_what_depends_on_it_and_going_back_compiles_nothing(project):
    first = build.build(target(project))
    compiled(project)
    source, header = project / "src" / "two.cpp", project / "include" / "shared.h"
    source.write_text(source.read_text().replace("return 2", "return 22"))
    second = build.build(target(project))
    assert second != first and compiled(project) == ["two.cpp"]
    header.write_text("#define ONE 11\n")
    third = build.build(target(project))
    assert compiled(project) == ["one.cpp"]
    library = ctypes.CDLL(str(third / "lib64" / "libx.so"))
    assert (library.one(), library.two()) == (11, 22)
    header.write_text("#define ONE 1\n")
    assert build.build(target(project)) == second and compiled(project) == []


def test_other_versions_give_another_build(project):
    first = build.build(target(project, versions=(("torch_npu", "1"),)))
    assert build.build(target(project, versions=(("torch_npu", "2"),))) != first
    assert compiled(project) == ["one.cpp", "one.cpp", "two.cpp", "two.cpp"]


def test_a_failed_compilation_shows_the_error_and_the_command_and_publishes_nothing(project):
    (project / "src" / "two.cpp").write_text("int two() { return nothing_of_that_name; }\n")
    with pytest.raises(EmulatorError) as failed:
        build.build(target(project))
    assert "two.cpp failed" in str(failed.value) and "nothing_of_that_name" in str(failed.value)
    assert f"{project}/cxx -O1" in str(failed.value)
    left = [path.name for path in cache.folder().rglob("*") if not path.name.startswith("one-")]
    assert sorted(left) == [".x.lock", "objects"]
    compiled(project)
    (project / "src" / "two.cpp").write_text("int two() { return 2; }\n")
    build.build(target(project))
    assert "two.cpp" in compiled(project)


def test_a_source_that_changes_while_it_is_built_gives_no_object(project, monkeypatch):
    (project / "cxx").write_text(f'#!/bin/sh\ng++ "$@" && echo "// more" >> {project}/src/two.cpp\n')
    with pytest.raises(EmulatorError, match=r"two\.cpp was changed while it was being built"):
        build.build(target(project))
    assert not list(cache.folder().rglob("two-*"))


def test_a_failed_link_is_told(project):
    with pytest.raises(EmulatorError, match="linking libx.so failed"):
        build.build(target(project, links=("-lno_such_library",)))
    assert not list(cache.folder().glob("x-*"))


def test_two_processes_build_once(project):
    code = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(_TESTS)!r})
        from pathlib import Path
        import test_build
        print(test_build.build.build(test_build.target(Path({str(project)!r}))))
    """)
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    folders = {process.communicate(timeout=100)[0] for process in running}
    assert len(folders) == 1 and folders != {""}
    assert compiled(project) == ["one.cpp", "two.cpp"]


def test_without_a_compiler_the_error_says_how_to_get_one(project, monkeypatch):
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(project))
    toolchain.compiler.cache_clear()
    with pytest.raises(EmulatorError, match=r"no C\+\+ compiler.*apt install g\+\+"):
        build.build(target(project))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(EmulatorError, match="'no-such-compiler' does not run"):
        build.build(target(project))


def test_sources_that_are_not_there_are_named(project):
    library = build.Library("libz.so", ("nowhere/*.cpp",))
    with pytest.raises(EmulatorError, match=r"libz.so: there is no nowhere/\*.cpp"):
        build.build(build.Target("z", "z", project, (library,)))


def test_a_precompiled_header_gives_the_same_objects(project):
    for i in range(4):
        (project / "src" / f"more{i}.cpp").write_text(
            f'#include "../include/shared.h"\nint more{i}() {{ return ONE; }}\n'
        )
    library = build.Library("libx.so", ("src/*.cpp",), ("include",), precompiled="include/shared.h")
    folder = build.build(build.Target("x", "x", project, (library,)))
    assert "shared.precompiled.h.gch" in (project / "log").read_text()
    assert ctypes.CDLL(str(folder / "lib64" / "libx.so")).one() == 1
    assert not list(cache.folder().rglob("*.gch"))


def test_what_was_not_used_for_a_month_is_deleted_after_a_build(project, monkeypatch):
    import os

    first = build.build(target(project, versions=(("v", "1"),)))
    for path in (first, *(cache.folder() / "objects").iterdir()):
        os.utime(path, (0, 0))
    second = build.build(target(project, versions=(("v", "2"),)))
    assert not first.exists() and second.exists()
    assert len(list((cache.folder() / "objects").iterdir())) == 2


_TESTS = __file__.rpartition("/")[0]
