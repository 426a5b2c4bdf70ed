"""`hetero parity`: traces, report, exit code, errors before anything is trained."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from hetero.cli.parity import parity
from hetero.errors import BackendError, HeteroError, ParityError, RecipeError
from tests.parity.conftest import load, planted, written  # noqa: F401 - fixtures


@pytest.fixture
def call():
    app = typer.Typer()
    app.command()(parity)

    def run(*arguments):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        if isinstance(result.exception, HeteroError):
            raise result.exception
        return result

    return run


def test_record_then_compare(call, written, tmp_path):  # noqa: F811
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    assert call(written, "--output", right, "--steps", 1).exit_code == 0
    with planted("swiglu") as policy:
        call(written, policy, "--output", wrong, "--steps", 1)
    out = tmp_path / "report"
    parted = call(right / "cpu", wrong / "cpu", "--output", out)
    assert (
        parted.exit_code == 1 and "first apart: forward: hetero.swiglu in model.layers.0.mlp" in parted.stdout
    )
    assert (
        "hetero.swiglu" in (out / "parity.html").read_text() and "<svg" in (out / "parity.html").read_text()
    )
    same = call(right / "cpu", right / "cpu", "--output", out)
    assert same.exit_code == 0 and "the same within rounding" in (out / "parity.txt").read_text()


@pytest.mark.parametrize(
    ("devices", "error", "said"),
    [
        ("cpu,cpu", ParityError, "each device once"),
        ("", ParityError, "each device once"),
        ("cpu,nonesuch", BackendError, "nonesuch"),
    ],
)
def test_wrong_devices(call, written, devices, error, said, tmp_path):  # noqa: F811
    with pytest.raises(error, match=said):
        call(written, "--devices", devices, "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_wrong_keys_and_a_single_trace(call, written, tmp_path):  # noqa: F811
    with pytest.raises(RecipeError, match="nonesuch"):
        call(written, "nonesuch=1")
    with pytest.raises(ParityError, match="is one trace"):
        call(tmp_path)
