"""What the ranks of test_grpo.py do; each runs this file in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hetero import comm
from hetero.train import recipe
from hetero.train.algorithms import create
from hetero.train.data.sampler import Sampler
from hetero.train.distributed import Engine
from hetero.train.model.tiny import tiny_model, tiny_tokenizer
from hetero.train.optim import AdamW
from hetero.train.source import Windows
from hetero.train.window import Stepper


def steps(path: str, count: int) -> list[dict[str, Any]]:
    """The first ``count`` steps of a recipe on a fresh tiny model."""
    given = recipe.load(Path(path), [])
    tokenizer = tiny_tokenizer()
    with comm.init("cpu") as ranks:
        model = tiny_model(tokenizer, seed=1).train()
        algorithm = create(given, tokenizer)
        engine = Engine(model, algorithm, ranks.device, ranks)
        examples, _ = algorithm.prepare("train")
        algorithm.begin(engine, {"train": examples})
        shape = algorithm.windows(given)
        sampler = Sampler(
            len(examples), shape.rows, rank=ranks.rank, world_size=ranks.world_size, shuffle=False
        )
        source = Windows(examples, sampler, shape.lists, shape.repeats)
        stepper = Stepper(model, algorithm, engine, AdamW(model.named_parameters(), 1e-3), 1e9)
        seen = []
        for _ in range(count):
            result = stepper(source.next_window(), 1e-3)
            weights = float(sum(p.detach().double().abs().sum() for p in model.parameters()))
            seen.append({"loss": result.loss, "grad_norm": result.grad_norm, "w": weights, **result.metrics})
    return seen
