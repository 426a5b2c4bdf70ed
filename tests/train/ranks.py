"""What the ranks of tests/train/test_ranks.py do; each runs this file in a process of its own."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import hetero
from hetero import comm
from hetero.errors import HeteroError
from hetero.train import recipe, run
from hetero.train.algorithms import SFT
from hetero.train.data.dataset import build
from hetero.train.data.sampler import Sampler
from hetero.train.distributed import Engine
from hetero.train.model.tiny import tiny_model, tiny_tokenizer
from hetero.train.optim import AdamW
from hetero.train.source import Windows
from hetero.train.window import Stepper


def steps(path: str, jobs: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """For each job, its first windows on a fresh model, dealt to the ranks by the sampler."""
    with comm.init("cpu") as ranks:
        return [_steps(ranks, recipe.load(Path(path), []), **job) for job in jobs]


def _steps(
    ranks: comm.Communicator,
    given: Any,
    *,
    rows: int,
    size: int,
    accumulation: int,
    windows: int,
    poison: int | None = None,
) -> list[dict[str, Any]]:
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer, seed=1).train()
    algorithm = SFT(given, tokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine = Engine(model, algorithm, ranks.device, ranks)
    stepper = Stepper(model, algorithm, engine, AdamW(model.named_parameters(), 1e-3), 1e9)
    examples = list(build(given, tokenizer)[0])[:rows]
    sampler = Sampler(rows, size, rank=ranks.rank, world_size=ranks.world_size, shuffle=False)
    source = Windows(examples, sampler, accumulation)
    if poison == ranks.rank:
        hook = model.get_input_embeddings().register_forward_hook(lambda m, i, out: out * float("nan"))
    seen = []
    for _ in range(windows):
        result = stepper(source.next_window(), 1e-3)
        weights = float(sum(p.detach().double().abs().sum() for p in model.parameters()))
        seen.append(
            {
                "loss": result.loss if result.applied else None,
                "grad_norm": result.grad_norm if result.applied else None,
                "w": weights,
                "applied": result.applied,
            }
        )
        if poison == ranks.rank:
            hook.remove()
    return seen


def killed_in_backward(path: str, overrides: list[str]) -> dict[str, Any]:
    """A run by recipe whose rank 1 dies in its first pass, when the other one waits for its gradients."""
    if os.environ["RANK"] == "1":
        Engine.forward_backward = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore
    return whole_run(path, overrides)


def whole_run(path: str, overrides: list[str], signal_at: list[Any] | None = None) -> dict[str, Any]:
    """A run by recipe. ``signal_at`` = [rank, step, name]: that rank gets the signal before that step."""
    if signal_at is not None:
        rank, step, name = signal_at
        call = Stepper.__call__

        def hooked(self: Stepper, *args: Any) -> Any:
            done = max(self._optimizer.steps().values(), default=0)
            if done == step and os.environ["RANK"] == str(rank):
                os.kill(os.getpid(), getattr(signal, name))
            return call(self, *args)

        Stepper.__call__ = hooked  # type: ignore[method-assign]
    try:
        result = run(recipe.load(Path(path), overrides), hetero.device("cpu"))
    except HeteroError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"steps": result.steps, "exit_code": result.exit_code}
