"""`hetero data check` on the command line: output, JSON, exit code, a recipe instead of a file."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from hetero.cli.main import app

RECIPE = Path(__file__).parents[2] / "recipes" / "tiny_dpo.yaml"


def test_a_file_with_a_fault(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "1+1=", "completion": "2"}\n{"prompt": "1+1="}\n')
    result = CliRunner().invoke(app, ["data", "check", str(path)])
    assert result.exit_code == 1
    for part in ("2 rows, read for sft", "1+1=⟦2<|im_end|>⟧", "rows.jsonl:2: no known layout"):
        assert part in result.output
    result = CliRunner().invoke(app, ["data", "check", str(path), "--json"])
    assert json.loads(result.stdout)["errors"] == 1


def test_a_recipe(tmp_path):
    result = CliRunner().invoke(app, ["data", "check", str(RECIPE)])
    assert result.exit_code == 0, result.output
    assert "read for dpo" in result.output and "(rejected)" in result.output
