"""The pytest marker, seen by a user: a pytest over a file of marked tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import pytest

FILE = """
    import os, signal, time
    import pytest, torch

    pytestmark = pytest.mark.emulated("ascend", devices=3)
    made = []

    @pytest.fixture(scope="module")
    def x():
        made.append(1)
        return torch.ones(4).npu()

    def test_passes(x):
        assert torch.npu.device_count() == 3 and (x + x).cpu().tolist() == [2.0] * 4

    @pytest.mark.parametrize("n", [2, 3])
    def test_parameters_share_fixtures(x, n):
        assert len(made) == 1 and os.environ["HETERO_EMULATE"] == "ascend"

    def test_fails(x):
        print("said before it")
        assert x.cpu()[0] == 7

    @pytest.mark.skip(reason="because")
    def test_skips():
        raise AssertionError

    @pytest.mark.timeout(2)
    def test_hangs():
        time.sleep(60)

    def test_dies():
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_after_that_works(x):
        assert x.device.type == "npu"

    @pytest.mark.emulated("nothing")
    def test_unknown_emulator():
        pass

    @pytest.mark.emulated("ascend", wings=3)
    def test_unknown_setting():
        pass
"""
BEFORE = """
    import pytest

    @pytest.fixture(scope="package")
    def theirs():
        yield
        raise RuntimeError("the folder's last word")

    def test_before(theirs):
        pass
"""
PLAIN = """
    import os

    def test_unmarked_tests_run_here():
        assert "HETERO_EMULATE" not in os.environ
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    files = {"first/test_before.py": BEFORE, "first/test_device.py": FILE, "second/test_plain.py": PLAIN}
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(textwrap.dedent(text))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p hetero.emulators.pytest_plugin\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_") and k != "HETERO_EMULATE"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "--tb=short", "-rs", "."],
        cwd=folder,
        env={**env, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "test, outcome",
    [
        ("test_before", "PASSED"),
        ("test_passes", "PASSED"),
        ("test_parameters_share_fixtures[2]", "PASSED"),
        ("test_parameters_share_fixtures[3]", "PASSED"),
        ("test_fails", "FAILED"),
        ("test_skips", "SKIPPED"),
        ("test_hangs", "FAILED"),
        ("test_dies", "FAILED"),
        ("test_after_that_works", "PASSED"),
        ("test_unknown_emulator", "FAILED"),
        ("test_unknown_setting", "FAILED"),
        ("test_unmarked_tests_run_here", "PASSED"),
    ],
)
def test_each_test_is_reported_as_its_own(output, test, outcome):
    assert re.search(rf"::{re.escape(test)} {outcome}", output), output


@pytest.mark.parametrize(
    "shown",
    [
        "assert tensor(1.) == 7",
        "said before it",
        "Timeout (>2.0s)",
        "ended with signal SIGSEGV during this test",
        "there is no emulator 'nothing'",
        "emulator 'ascend' has no setting 'wings'",
        "because",
        "the folder's last word",
        "5 failed, 6 passed, 1 skipped, 1 error",
    ],
)
def test_what_went_wrong_there_is_shown_here(output, shown):
    assert shown in output, output
