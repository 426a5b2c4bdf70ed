"""The tiny model on a few rows, and implementations planted to be wrong."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from hetero.ops import registry
from hetero.ops.impl import Impl
from hetero.train import recipe

WRONG = {
    "swiglu": Impl("swiglu", "wrong", "native", "tests.parity.wrong:swiglu"),
    "rms_norm": Impl(
        "rms_norm", "wrong", "native", "tests.parity.wrong:rms_norm", "tests.parity.wrong:rms_norm_backward"
    ),
    "adamw": Impl("adamw", "wrong", "native", "tests.parity.wrong:adamw"),
}


@contextmanager
def planted(op: str):
    """While it lasts there is an implementation ``op=wrong``, which only a policy that names it picks."""
    registry.register(WRONG[op])
    try:
        yield f"ops={op}=wrong,*"
    finally:
        registry.unregister(WRONG[op])


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The recipe's file."""
    values = {
        "model_name_or_path": "hetero:tiny-qwen2",
        "dataset_name": "hetero:arithmetic?rows=32",
        "max_length": 32,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
    }
    path = tmp_path_factory.mktemp("parity") / "recipe.yaml"
    path.write_text(json.dumps(values))
    return path


@pytest.fixture(scope="session")
def load(written):
    return lambda *overrides: recipe.load(written, list(overrides))
