"""A few steps of a recipe on one device, recorded; and such a record as a folder."""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hetero.errors import ParityError
from hetero.files import write_whole
from hetero.parity.events import Event, distance
from hetero.parity.recorder import Recorder

if TYPE_CHECKING:
    from hetero.accelerator import Device
    from hetero.train.recipe import Recipe

#: Of the format of a saved trace.
VERSION = 1
#: Runs from weights moved by a rounding, for :attr:`Event.rounding`.
DRAWS = 2


@dataclass(frozen=True)
class Trace:
    """A recorded run.

    Args:
        device: spec, chip and "emulated" as :class:`hetero.accelerator.Device` prints them.
        losses, grad_norms: one a step.
        events: in the order in which they were computed.
        recipe: the recipe's keys, as trained.
        versions: of hetero and torch.
    """

    device: str
    losses: tuple[float, ...]
    grad_norms: tuple[float, ...]
    events: tuple[Event, ...]
    recipe: dict[str, Any]
    versions: dict[str, str]

    def save(self, folder: Path) -> None:
        """Write ``trace.json`` into ``folder``, which is made if it is not there."""
        write_whole(folder / "trace.json", json.dumps({"version": VERSION, **asdict(self)}))

    @classmethod
    def load(cls, folder: Path) -> Trace:
        """Read what :meth:`save` wrote.

        Raises:
            ParityError: there is no trace, or one of another version.
        """
        path = folder / "trace.json" if folder.is_dir() else folder
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            version = values.pop("version")
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ParityError(
                f"{path} is no trace ({error}); `hetero parity RECIPE --devices cpu --output DIR` writes one"
            ) from None
        if version != VERSION:
            raise ParityError(
                f"{path} has format {version}, and this hetero reads {VERSION}: record it again"
            )
        events = tuple(Event(**{k: _tupled(v) for k, v in e.items()}) for e in values.pop("events"))
        return cls(**{k: _tupled(v) for k, v in values.items()}, events=events)


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def record(recipe: Recipe, device: Device, steps: int = 2) -> Trace:
    """Train ``recipe`` for ``steps`` optimiser steps on ``device``, and again from weights a rounding away.

    Noise that each device draws for itself, dropout and NEFTune's, is left out. The recipe's output folder is not
    touched.

    Raises:
        HeteroError: whatever is wrong with the recipe, the data or the device.
    """
    from hetero import __version__

    quiet = {
        "lora_dropout": 0.0,
        "neftune_noise_alpha": None,
        "max_steps": steps,
        "resume_from_checkpoint": None,
    }
    with tempfile.TemporaryDirectory() as folder:
        given = recipe.model_copy(update=quiet | {"output_dir": folder, "overwrite_output_dir": True})
        with contextlib.redirect_stdout(sys.stderr):
            losses, norms, events = _run(given, device, steps, draw=0)
            moved = [_run(given, device, steps, draw)[2] for draw in range(1, DRAWS + 1)]
    for twin in moved:
        events = list(_with_rounding(events, twin))
    return Trace(
        device=f"{device} {device.name}",
        losses=tuple(losses),
        grad_norms=tuple(norms),
        events=tuple(_settled(events)),
        recipe=recipe.model_dump(mode="json") | quiet,
        versions={"hetero": __version__, "torch": torch.__version__},
    )


def _run(
    recipe: Recipe, device: Device, steps: int, draw: int
) -> tuple[list[float], list[float], list[Event]]:
    from hetero.conform.training import move_by_a_rounding
    from hetero.train import runner, schedule
    from hetero.train.checkpoint import rng
    from hetero.train.window import Stepper

    with runner.prepared(recipe, device) as training:
        training.model.train()
        for module in training.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        if draw:
            move_by_a_rounding(training.model, draw)
        rng.seed_all(recipe.seed)
        recorder = Recorder(training.model)
        _listen(recorder, training)
        stepper = Stepper(
            training.model, training.algorithm, training.engine, training.optimizer, recipe.max_grad_norm
        )
        warmup = schedule.warmup_steps(steps, recipe.warmup_steps, recipe.warmup_ratio)
        losses, norms = [], []
        for step in range(steps):
            recorder.step = step + 1
            lr = recipe.learning_rate * schedule.factor(recipe.lr_scheduler_type, step, steps, warmup)
            result = stepper(training.source.next_window(), lr)
            training.algorithm.after_step(training.model, step + 1)
            for name, parameter in training.model.named_parameters():
                if parameter.requires_grad:
                    recorder.note("weights", name, "updated weight", parameter)
            losses.append(result.loss)
            norms.append(result.grad_norm)
    return losses, norms, recorder.events


def _listen(recorder: Recorder, training: Any) -> None:
    """Have ``recorder`` hear the engine's passes, and the gradients that the optimiser gets."""
    forward_backward, grad_norm = training.engine.forward_backward, training.optimizer.grad_norm

    def heard(batch: Any, items: Any, *, last: bool) -> Any:
        for name in sorted(k for k, v in batch.items() if isinstance(v, torch.Tensor)):
            recorder.note("inputs", "", name, batch[name])
        mask = batch.get("attention_mask")
        recorder.real = mask.bool() if mask is not None and mask.ndim == 2 else None
        with recorder.listening():
            return forward_backward(batch, items, last=last)

    def measured() -> Any:
        for name, parameter in training.model.named_parameters():
            if parameter.grad is not None:
                recorder.note("gradients", name, "gradient", parameter.grad)
        return grad_norm()

    training.engine.forward_backward = heard
    training.optimizer.grad_norm = measured


def _with_rounding(events: list[Event], twin: list[Event]) -> Iterator[Event]:
    """``events`` with the distance to ``twin``, where that is larger than what is there already."""
    others = {event.key: event for event in twin}
    for event in events:
        other = others.get(event.key)
        moved = float("inf") if other is None else distance(event, other)
        yield replace(event, rounding=max(event.rounding, moved))


def _settled(events: list[Event]) -> Iterator[Event]:
    """``events``, each with at least the median rounding of its step and phase.

    What a small tensor moves by in a few draws may be next to nothing by chance.
    """
    found: dict[tuple[int, str], list[float]] = defaultdict(list)
    for event in events:
        if not event.exact and event.rounding < float("inf"):
            found[event.step, event.phase].append(event.rounding)
    for event in events:
        usual = statistics.median(found.get((event.step, event.phase), [0.0]))
        yield event if event.exact else replace(event, rounding=max(event.rounding, usual))
