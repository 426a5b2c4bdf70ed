"""The documentation against the code: links, examples, environment variables, commands."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from hetero.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RUN = ("README.md", "README.zh.md", "docs/adding_an_op.md")
COMMANDS = typer.main.get_command(app).commands
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, language):
    return [body for found, body in FENCE.findall(text(page)) if found == language]


def headings(page):
    return re.findall(r"^(#+) (.+)$", FENCE.sub("", text(page)), re.MULTILINE)


def anchors(page):
    """What a heading is linked by: lower case, punctuation gone, blanks to hyphens."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for _, title in headings(page)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target}: there is no {file}"
        if anchor:
            assert anchor in anchors(file), f"{target}: no such heading"


def test_both_front_pages_have_the_same_parts():
    english, chinese = "README.md", "README.zh.md"
    assert [level for level, _ in headings(english)] == [level for level, _ in headings(chinese)]
    assert [kind for kind, _ in FENCE.findall(text(english))] == [
        kind for kind, _ in FENCE.findall(text(chinese))
    ]
    rows = [len(re.findall(r"^\|", text(page), re.MULTILINE)) for page in (english, chinese)]
    assert rows[0] == rows[1] > 2


# Each page in a namespace of its own. A block that begins with the name of a file is that file.
_DRIVER = """
import contextlib, io, json, re, sys
from pathlib import Path
sys.path.insert(0, ".")
printed = {}
for page, blocks in json.load(sys.stdin).items():
    space, out = {"__name__": "page"}, io.StringIO()
    with contextlib.redirect_stdout(out):
        for number, block in enumerate(blocks, 1):
            if file := re.match(r"# (\\w+\\.py)\\n", block):
                Path(file[1]).write_text(block)
            else:
                exec(compile(block, f"{page}, block {number}", "exec"), space)
    printed[page] = out.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """page -> what its Python blocks print, in order; all run in one process."""
    folder = tmp_path_factory.mktemp("docs")
    env = {k: v for k, v in os.environ.items() if not k.startswith("HETERO_")}
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER],
        input=json.dumps({page: blocks(page, "python") for page in RUN}),
        env={**env, "XDG_CACHE_HOME": str(folder), "OMP_NUM_THREADS": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_python_blocks_run(printed):
    assert all(printed[page] for page in RUN)
    assert "first proven native implementation" in printed["docs/adding_an_op.md"]


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_the_front_page_shows_what_its_example_prints(printed, page):
    (shown,) = blocks(page, "text")
    if "-> cpp" not in printed[page]:
        pytest.skip("the C++ kernels are not built, or not proven on this kind of machine")
    assert printed[page] == shown


def _variables():
    """HETERO_ variable -> the files that have its name as a literal: its readers."""
    found = {}
    for file in (ROOT / "emulators").rglob("*.cpp"):  # a vendor's libraries read as one
        for value in re.findall(r'"(HETERO_[A-Z0-9_]*[A-Z0-9])"', file.read_text(encoding="utf-8")):
            found.setdefault(value, set()).add("/".join(file.relative_to(ROOT).parts[:2]))
    folders = (ROOT / name for name in ("hetero", "backends", "emulators"))
    for file in (file for folder in folders for file in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and re.fullmatch(r"HETERO_[A-Z0-9_]*[A-Z0-9]", value):
                found.setdefault(value, set()).add(str(file.relative_to(ROOT)))
    return found


def test_every_variable_is_documented_with_its_one_reader():
    rows = re.findall(r"^\| `(HETERO_\w+)` \| `([^`]+)` \|", text("docs/environment.md"), re.MULTILINE)
    assert {name: {reader} for name, reader in rows} == _variables()


def test_no_page_names_a_variable_that_does_not_exist():
    known = set(_variables())
    for page in PAGES:
        unknown = set(re.findall(r"\bHETERO_[A-Z0-9_]+\b", page.read_text(encoding="utf-8"))) - known
        assert not unknown, f"{page.name}: {unknown}"


def test_every_command_is_documented():
    everything = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [name for name in COMMANDS if f"hetero {name}" not in everything]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_command_lines_use_options_that_exist(page):
    for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
        for line in body.splitlines() if not language else ():
            call = re.search(r"(?:^|\s)hetero ([a-z][\w-]*)(.*)", line.split("#")[0])
            if call is None or not re.match(r"\s*(hetero|HETERO_|torchrun)\b|\s*HETERO_", line):
                continue
            assert call[1] in COMMANDS, f"{line}: there is no command {call[1]!r}"
            command = COMMANDS[call[1]]
            if hasattr(command, "commands"):  # `hetero data check`
                command = command.commands[call[2].split()[0]]
            options = {name for p in command.params for name in p.opts}
            own = call[2].split(" -- ")[0]  # what follows is another command's
            for option in re.findall(r"--[a-z][\w-]*", own):
                assert option in options, f"{line}: `hetero {call[1]}` has no {option}"


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z][\w-]*):", text("Makefile"), re.MULTILINE))
    for page in PAGES:
        named = set(
            re.findall(r"`make ([a-z][\w-]*)|^make ([a-z][\w-]*)", page.read_text("utf-8"), re.MULTILINE)
        )
        assert {a or b for a, b in named} <= targets, page.name


def test_no_page_names_a_path_of_somebodys_machine():
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", page.read_text(encoding="utf-8")), (
            page.name
        )
