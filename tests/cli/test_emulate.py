"""``hetero emulate``: what it lists, and what it refuses."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from hetero.cli.main import app
from hetero.emulators import ascend
from hetero.emulators.torch_npu import TorchNpu
from hetero.errors import EmulatorError


def run(*args):
    result = CliRunner().invoke(app, ["emulate", *args])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_list_has_every_emulator_with_its_settings():
    assert "ascend" in run("--list").output and "HETERO_CANN_DEVICES" in run("--list").output
    (entry,) = (e for e in json.loads(run("--list", "--json").output) if e["name"] == "ascend")
    assert {"devices", "memory", "soc", "faults", "delay"} <= set(entry["settings"])


@pytest.mark.parametrize(
    "args, told",
    [
        ([], "which one?"),
        (["nvidia", "--", "true"], "there is no emulator 'nvidia'"),
        (["ascend"], "what shall run?"),
    ],
)
def test_what_is_missing_is_told(args, told):
    with pytest.raises(EmulatorError, match=told.replace("?", r"\?")):
        run(*args)


def test_options_after_the_dashes_are_the_commands(monkeypatch):
    got = []
    module = sys.modules["hetero.emulators.environment"]
    monkeypatch.setattr(module, "environment", lambda name, **settings: {"name": name, **settings})
    monkeypatch.setattr(module, "run", lambda command, env: got.append((command, env)))
    run("ascend", "--devices", "4", "--faults", "oom@3", "--", "torchrun", "--nproc-per-node", "2", "x.py")
    ((command, env),) = got
    assert command == ["torchrun", "--nproc-per-node", "2", "x.py"]
    assert (env["name"], env["devices"], env["faults"], env["memory"]) == ("ascend", 4, "oom@3", None)


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A torch_npu whose library looks up two operators, and an emulator that has one of them and one more."""

    def write(file, *names):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\0".join([b"", *(n.encode() for n in names), b""]))

    def pair(name):
        return name, f"{name}GetWorkspaceSize"

    write(
        tmp_path / "torch_npu" / "lib" / "libtorch_npu.so",
        *pair("aclnnAdd"),
        *pair("aclnnNoSuch"),
        "aclnnHalf",
    )
    write(tmp_path / "lib64" / "libopapi.so", *pair("aclnnAdd"), *pair("aclnnMul"))
    (tmp_path / "lib64" / "libascendcl.so").touch()
    monkeypatch.setenv("HETERO_EMULATOR_HOME", str(tmp_path))
    monkeypatch.setattr(ascend.torch_npu, "find", lambda wheel=None: TorchNpu(tmp_path, "2.13.0", True))


def test_coverage_tells_looked_up_emulated_and_ran(library, tmp_path):
    ran = tmp_path / "ran.txt"
    ran.write_text("aclnnAdd\naclnnMul\naclnnAdd\n")
    rows = json.loads(run("ascend", "--coverage", "--ran", str(ran), "--json").output)
    assert rows == [
        {"operator": "aclnnAdd", "looked_up": True, "implemented": True, "ran": True},
        {"operator": "aclnnMul", "looked_up": False, "implemented": True, "ran": True},
        {"operator": "aclnnNoSuch", "looked_up": True, "implemented": False, "ran": False},
    ]
    told = run("ascend", "--coverage", "--ran", str(ran)).output
    assert "2 operators that the vendor's package can call, 1 of them emulated, 1 of these ran" in told
