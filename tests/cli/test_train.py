"""`hetero train`: overrides, the dry run, a short run, and errors before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from hetero.cli.train import train
from hetero.errors import BackendError, DataError, DeviceError, RecipeError

RECIPES = Path(__file__).parents[2] / "recipes"
RECIPE = str(RECIPES / "tiny_sft.yaml")
ROWS = "dataset_name=hetero:arithmetic?rows=50"


@pytest.fixture
def hetero_train(tmp_path):
    app = typer.Typer()
    app.command()(train)

    def call(*arguments: str):
        result = CliRunner().invoke(
            app, [*arguments, f"output_dir={tmp_path / 'out'}"], catch_exceptions=True
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def test_dry_run_shows_the_resolved_recipe_and_the_counts(hetero_train, tmp_path):
    result = hetero_train(RECIPE, "lr=1e-4", "--device", "cpu", "--dry-run", "use_peft=true", ROWS)
    assert result.exit_code == 0
    for part in (
        "device cpu",
        "learning_rate: 0.0001",
        "use_peft: true",
        "train: 50 of 50 rows",
        "test: 64 of 64",
    ):
        assert part in result.output
    assert not (tmp_path / "out").exists()


def test_short_run(hetero_train, tmp_path):
    result = hetero_train(
        RECIPE, "max_steps=3", "--device=cpu", "lr=1e-2", "warmup_ratio=0", "logging_steps=1"
    )
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == 3 and losses[-1] < losses[0]
    assert "max_steps: 3" in (tmp_path / "out/recipe.yaml").read_text()


@pytest.mark.parametrize(
    "arguments, error, part",
    [
        ([str(RECIPES / "none.yaml")], RecipeError, "tiny_sft.yaml"),
        ([RECIPE, "lerning_rate=1"], RecipeError, "did you mean 'learning_rate'"),
        ([RECIPE, "--device=nowhere"], (BackendError, DeviceError), "nowhere"),
        ([RECIPE, "--device=cpu", "max_length=2", "--dry-run", ROWS], DataError, "raise max_length"),
    ],
)
def test_errors(hetero_train, arguments, error, part):
    with pytest.raises(error, match=part):
        hetero_train(*arguments)
