"""The environment of emulated processes, and getting into one once."""

from __future__ import annotations

import os
import sys

import pytest

from hetero.accelerator.host import Host
from hetero.emulators import ascend, emulator, environment, names, running
from hetero.emulators import environment as environment_function
from hetero.emulators.torch_npu import TorchNpu
from hetero.errors import EmulatorError

module = sys.modules[environment_function.__module__]


@pytest.fixture
def built(tmp_path, monkeypatch):
    """An emulator that looks built, and a torch_npu in a side folder."""
    home = tmp_path / "home"
    (home / "lib64").mkdir(parents=True)
    (home / "lib64" / "libascendcl.so").touch()
    (home / "emulator.json").write_text("{}")
    monkeypatch.setenv("HETERO_EMULATOR_HOME", str(home))
    monkeypatch.setattr(ascend.torch_npu, "find", lambda: TorchNpu(tmp_path / "side", "2.13.0", True))
    for name in ("HETERO_EMULATE", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    return home


def test_libraries_and_package_come_first_and_once(built):
    base = {"LD_LIBRARY_PATH": "/a:/b", "PYTHONPATH": "/mine", "KEPT": "1"}
    env = environment("ascend", base, devices=4, memory="512MiB", soc=None)
    assert env["LD_LIBRARY_PATH"] == f"{built}/lib64:/a:/b"
    assert env["PYTHONPATH"] == f"{built.parent}/side:/mine"
    assert (env["HETERO_EMULATE"], env["KEPT"]) == ("ascend", "1")
    assert (env["HETERO_CANN_DEVICES"], env["HETERO_CANN_MEMORY"]) == ("4", "512MiB")
    assert "HETERO_CANN_SOC" not in env
    assert environment("ascend", env) == env


def test_missing_operators_are_errors_unless_the_user_says_otherwise(built):
    assert environment("ascend", {})["TORCH_NPU_FALLBACK_CPU_DISABLE"] == "1"
    kept = environment("ascend", {"TORCH_NPU_FALLBACK_CPU_DISABLE": "0"})
    assert kept["TORCH_NPU_FALLBACK_CPU_DISABLE"] == "0"


def test_what_torch_npu_looks_for_below_its_home_is_there():
    made = {
        name for name, text in ascend.target(TorchNpu(ascend._SOURCES, "2.13.0", True)).files if text is None
    }
    assert {"runtime", "compiler", "opp"} <= made


def test_unknown_names_are_refused_with_the_known_ones(built):
    with pytest.raises(EmulatorError, match=r"no setting 'wings'; it has: devices, memory"):
        environment("ascend", wings=2)
    with pytest.raises(EmulatorError, match=r"no emulator 'nvidia'; there is: .*ascend"):
        emulator("nvidia")
    assert "ascend" in names()


def test_a_home_without_libraries_is_refused(built, monkeypatch, tmp_path):
    monkeypatch.setenv("HETERO_EMULATOR_HOME", str(tmp_path))
    with pytest.raises(EmulatorError, match=r"no lib64/libascendcl\.so"):
        environment("ascend")


def test_it_runs_emulated_only_where_the_library_that_is_found_is_the_emulators(built, monkeypatch, tmp_path):
    assert running() == ""
    monkeypatch.setenv("HETERO_EMULATE", "ascend")
    assert running() == ""
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{built}/lib64")
    assert running() == "ascend"
    cann = tmp_path / "cann" / "lib64"
    cann.mkdir(parents=True)
    (cann / "libascendcl.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{cann}:{built}/lib64")
    assert running() == ""


def test_an_emulators_library_is_told_by_the_mark_beside_its_folder(tmp_path):
    host = Host(root=tmp_path)
    (tmp_path / "home/lib64").mkdir(parents=True)
    assert not host.emulated("/home/lib64/libascendcl.so") and not host.emulated(None)
    (tmp_path / "home/emulator.json").touch()
    assert host.emulated("/home/lib64/libascendcl.so")


@pytest.fixture
def started(monkeypatch):
    """What was started instead of this process."""
    calls = []
    monkeypatch.setattr(os, "execvpe", lambda file, command, env: calls.append((command, env)))
    return calls


def test_a_command_starts_again_inside_once(built, monkeypatch, started):
    module.enter()
    assert not started
    monkeypatch.setenv("HETERO_EMULATE", "ascend")
    monkeypatch.setattr(sys, "orig_argv", ["python3", "-m", "x", "--flag"])
    module.enter()
    ((command, env),) = started
    assert command == [sys.executable, "-m", "x", "--flag"] and env["LD_LIBRARY_PATH"] == f"{built}/lib64"
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    module.enter()
    assert len(started) == 1


def test_a_start_that_did_not_help_is_an_error_and_no_loop(built, monkeypatch, started):
    (built / "emulator.json").unlink()
    for name, value in environment("ascend").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(EmulatorError, match="libraries are not found"):
        module.enter()
    assert not started


def test_a_command_that_does_not_exist_is_named(built):
    with pytest.raises(EmulatorError, match="no-such-command cannot be started"):
        module.run(["no-such-command"], {"PATH": "/nowhere"})
