import json

import pytest
from typer.testing import CliRunner

from hetero.cli.lint import lint


@pytest.fixture
def run():
    import typer

    app = typer.Typer()
    app.command()(lint)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


def test_exit_codes(run, tmp_path):
    (tmp_path / "clean.py").write_text("x = 1\n")
    (tmp_path / "leak.py").write_text("x.cuda()\n")
    (tmp_path / "bad.py").write_text("def f(:\n")
    assert run(tmp_path / "clean.py").exit_code == 0
    found = run(tmp_path)
    assert found.exit_code == 1
    assert "leak.py:1:1: device-method: .cuda()\n    use .to(hetero.device().torch)" in found.output
    assert "bad.py:1: not checked" in found.output and "1 finding(s) in 3 file(s)" in found.output
    assert run(tmp_path / "bad.py").exit_code == 2


def test_json(run, tmp_path):
    (tmp_path / "leak.py").write_text("x.cuda()\n")
    result = run(tmp_path, "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1 and report["files"] == 1 and report["errors"] == []
    assert report["findings"][0]["line"] == 1 and report["findings"][0]["rule"] == "device-method"


def test_hetero_itself_is_clean(run):
    from pathlib import Path

    import hetero

    result = run(Path(hetero.__file__).parent)
    assert result.exit_code == 0, result.output
