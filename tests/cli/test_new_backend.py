import subprocess
import sys
from pathlib import Path

import pytest

from hetero.cli.new_backend import new_backend, write
from hetero.errors import BackendError


def test_the_plugin_installs_and_passes_level_0_as_written(tmp_path):
    """The whole promise, in an environment of its own: written, installed by pip, found by name, checked."""
    write("zeta", tmp_path / "plugin")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*install, "--target", tmp_path / "site", tmp_path / "plugin"], check=True, timeout=240)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import hetero\n"
        "from hetero.accelerator import registry\n"
        "from hetero.conform import level0\n"
        "record = registry.record('zeta')\n"
        "assert record.package.startswith('hetero-zeta'), record\n"
        "results = level0.run(record.backend)\n"
        "print(*results, sep='\\n')\n"
        "assert len(results) == 14 and all(r.status == 'pass' for r in results)\n"
        "assert hetero.device('zeta').vendor == 'zeta' and hetero.device().vendor != 'zeta'\n"
    )
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_trace_of_the_templates_own_name_is_left(tmp_path):
    files = write("my_chip", tmp_path / "plugin")
    assert Path("hetero_my_chip/__init__.py") in files and Path("pyproject.toml") in files
    for file in files:
        text = (tmp_path / "plugin" / file).read_text()
        assert "acme" not in text.lower() and "acme" not in str(file), file
    assert (
        "class MyChipBackend(Backend)" in (tmp_path / "plugin" / "hetero_my_chip" / "__init__.py").read_text()
    )


@pytest.mark.parametrize("name", ["Acme", "9lives", "a-b", "class", "", "../x"])
def test_a_name_that_cannot_be_used(tmp_path, name):
    with pytest.raises(BackendError, match="lower-case letters"):
        write(name, tmp_path / "plugin")
    assert not (tmp_path / "plugin").exists()


def test_a_name_that_is_taken(tmp_path):
    with pytest.raises(BackendError, match="'cuda' is taken by hetero"):
        write("cuda", tmp_path / "plugin")


def test_a_folder_that_is_in_use_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BackendError, match="not empty"):
        write("zeta", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_the_command_says_what_comes_next(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    new_backend("zeta")
    assert "pip install -e hetero-zeta" in capsys.readouterr().out
    assert (tmp_path / "hetero-zeta" / "README.md").exists()
