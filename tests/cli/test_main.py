"""The command as users start it: streams that are closed or cannot show every letter, errors, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HETERO = f"'{sys.executable}' -m hetero"


def shell(command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_an_error_is_one_message_and_code_2(tmp_path: Path) -> None:
    done = shell(f"{HETERO} train nowhere.yaml", tmp_path)
    assert done.returncode == 2
    assert done.stderr == "hetero: the recipe nowhere.yaml does not exist\n" and not done.stdout


@pytest.mark.parametrize(
    "command", ["new-backend " + "a" * 300, "new-backend acme --dir file/x", "export . --to " + "a" * 300]
)
def test_a_place_that_cannot_be_written_is_one_message(tmp_path: Path, command: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "config.json").write_text("{}")
    done = shell(f"{HETERO} {command}", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("hetero: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["--version", "doctor", "--help"])
@pytest.mark.parametrize("ending", [">&-", ">&- 2>&-", "| true"])
def test_a_reader_that_is_gone_is_no_traceback(tmp_path: Path, command: str, ending: str) -> None:
    done = shell(f"{HETERO} {command} {ending}", tmp_path)
    assert done.returncode in ((0, 1) if "|" in ending else (0,))
    assert "Error" not in done.stderr


def test_a_letter_that_the_terminal_lacks(tmp_path: Path) -> None:
    folder = tmp_path / "\u6570\u636e"
    folder.mkdir()
    (folder / "r.yaml").write_text(
        "model_name_or_path: hetero:tiny-qwen2\ndataset_name: hetero:arithmetic?rows=4\n"
    )
    done = shell(f"{HETERO} train r.yaml --dry-run", folder, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "\\u6570\\u636e/runs/r" in done.stdout and "train: 4 of 4 rows" in done.stdout
