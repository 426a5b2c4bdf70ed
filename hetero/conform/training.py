"""Level 4: twenty steps of each training algorithm on the device, against the CPU's curve.

The model is tiny and random, and the same on both. How far two right machines may part is measured, not guessed: the
CPU also trains from weights each of which is moved by one float32 rounding, a few times, and what its own curves then
part by is what rounding does to this run. Moved weights do not show what another order of summation does, so that is
counted beside it: sqrt(n) u of the result for a sum of n terms (Higham and Mary, A New Approach to Probabilistic
Rounding Error Analysis, 2019), which are the tokens of a step for a loss, and the weights for a gradient's norm. The
device may part by ``FACTOR`` times the most that either has come to up to that step.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import hetero
from hetero.accelerator import Device
from hetero.conform.case import Case

STEPS = 20
#: Curves of runs that differ in rounding alone spread over a few times what one draw shows.
FACTOR = 8.0
DRAWS = 2
#: What is compared at each step, and how many terms it is a sum of: tokens, and weights of the tiny model.
CURVES = {"loss": 512, "grad_norm": 500_000}

_DATA = "hetero:arithmetic?rows=64&repeat=3"
_PAIRS = "hetero:arithmetic-pairs?rows=64&repeat=3"
_BATCH = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
#: Recipe keys of each algorithm, beside those of :func:`_recipe`.
ALGORITHMS: dict[str, dict[str, Any]] = {
    "sft": {"dataset_name": _DATA, "assistant_only_loss": True, **_BATCH},
    "dpo": {"dataset_name": _PAIRS, **_BATCH},
    "kto": {"dataset_name": _PAIRS, **_BATCH},
    "rm": {"dataset_name": _PAIRS, **_BATCH},
    "grpo": {
        "dataset_name": _DATA,
        "reward_funcs": [f"{__name__}:even_tokens"],
        "num_generations": 4,
        "max_completion_length": 8,
        "per_device_train_batch_size": 8,
    },
}


def even_tokens(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """A reward that any tokenizer gives sense: the share of a completion's tokens that are even numbers."""
    return [sum(i % 2 == 0 for i in ids) / max(len(ids), 1) for ids in completion_ids]


def run(
    device: Device, names: Iterable[str] | None = None, *, steps: int = STEPS, seed: int = 0
) -> list[Case]:
    """A case for each algorithm of ``names`` (None: all that there are)."""
    from hetero.train import algorithms

    found = []
    for name in names or algorithms.names():
        case = Case(name, "trainer", "training", "float32", f"{steps} steps")
        if name not in ALGORITHMS:
            found.append(replace(case, skipped="level 4 has no recipe for this algorithm"))
            continue
        try:
            found.append(_against_the_cpu(case, device, steps, seed))
        except Exception as error:  # noqa: BLE001 - whatever ends a run fails its case; the others still run
            found.append(replace(case, problem=f"{type(error).__name__}: {error}"))
    return found


def _against_the_cpu(case: Case, device: Device, steps: int, seed: int) -> Case:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = [_write_model(folder / f"model-{draw}", seed, draw) for draw in range(DRAWS + 1)]
        cpu = hetero.device("cpu")
        right, *moved = [_train(case.op, model, cpu, steps, seed, folder / "cpu") for model in models]
        got = _train(case.op, models[0], device, steps, seed, folder / "device")
    return compare(case, right, moved, got)


Curves = list[dict[str, float]]


def compare(case: Case, right: Curves, moved: Sequence[Curves], got: Curves) -> Case:
    """``case`` with the worst ratio of what the device parts by to what it may, and the step that is too far off."""
    if len(got) != len(right):
        return replace(case, problem=f"{len(got)} steps were logged, {len(right)} on the CPU")
    worst, spread = 0.0, dict.fromkeys(CURVES, 0.0)
    for step, (want, have) in enumerate(zip(right, got)):
        for name in CURVES:
            own = max(abs(run[step][name] - want[name]) for run in moved)
            order = math.sqrt(CURVES[name]) * torch.finfo(torch.float32).eps / 2 * abs(want[name])
            spread[name] = max(spread[name], own, order)
            ratio = abs(have[name] - want[name]) / (FACTOR * spread[name] or 1e-300)
            worst = max(worst, ratio)
            if not ratio <= 1:
                problem = f"step {step + 1}: {name} {have[name]:.8g}, the CPU's {want[name]:.8g}, allowed "
                return replace(case, ratio=worst, problem=problem + f"{FACTOR * spread[name]:.2g} apart")
    return replace(case, ratio=worst)


def _write_model(folder: Path, seed: int, draw: int) -> Path:
    """The tiny model with random weights; those of a ``draw`` above 0 are each one rounding off."""
    from hetero.train.model.tiny import tiny_model, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer, seed=seed)
    if draw:
        move_by_a_rounding(model, draw)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@torch.no_grad()
def move_by_a_rounding(model: torch.nn.Module, seed: int) -> None:
    """Move every weight up or down by one rounding of its own dtype."""
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        signs = torch.randint(0, 2, weight.shape, generator=generator) * 2 - 1
        weight.mul_((1 + torch.finfo(weight.dtype).eps * signs).to(weight.device, weight.dtype))


def _train(name: str, model: Path, device: Device, steps: int, seed: int, output: Path) -> Curves:
    from hetero.train import recipe, runner
    from hetero.train.metrics import jsonl

    values = {
        "algorithm": name,
        "model_name_or_path": str(model),
        "dtype": "float32",
        "output_dir": str(output),
        "overwrite_output_dir": True,
        "max_length": 64,
        "max_steps": steps,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "report_to": "none",
        "seed": seed,
        **ALGORITHMS[name],
    }
    path = output.with_suffix(".yaml")
    path.write_text(json.dumps(values))
    with contextlib.redirect_stdout(sys.stderr):
        runner.run(recipe.load(path, []), device)
    rows = [row for row in jsonl.read(output / "metrics.jsonl") if "loss" in row]
    return [{key: float(row[key]) for key in CURVES} for row in rows]
