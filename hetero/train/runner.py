"""A whole training run, from recipe to trained model."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetero import ops
from hetero.errors import DataError
from hetero.train import algorithms, report, rundir
from hetero.train.checkpoint import Checkpointer, Identity, RunLock, files, rng
from hetero.train.data.sampler import Sampler
from hetero.train.distributed import Engine, on_rank_0
from hetero.train.evaluate import evaluate
from hetero.train.loop import Loop
from hetero.train.machine import Machine
from hetero.train.metrics import MetricLog, jsonl
from hetero.train.metrics.console import Console
from hetero.train.optim import AdamW
from hetero.train.progress import Progress
from hetero.train.signals import StopSignals
from hetero.train.source import Windows
from hetero.train.window import Stepper

if TYPE_CHECKING:
    from hetero.accelerator import Device
    from hetero.comm import Communicator
    from hetero.train.recipe import Recipe


@dataclass(frozen=True)
class RunResult:
    """What a run came to. ``interrupted_by`` is the signal that ended it early, 0 for none."""

    steps: int
    output_dir: Path
    metrics: dict[str, Any] = field(default_factory=dict)
    interrupted_by: int = 0

    @property
    def exit_code(self) -> int:
        """0, or 128 + the signal's number as shells expect it (130 Ctrl-C, 143 SIGTERM)."""
        return 128 + self.interrupted_by if self.interrupted_by else 0


def run(recipe: Recipe, device: Device) -> RunResult:
    """Train as ``recipe`` says on ``device``, alone or as one rank of several started by torchrun.

    Everything goes to ``recipe.output_dir``. Errors that a user can cause are raised as
    :class:`~hetero.errors.HeteroError`, on every rank.
    """
    with prepared(recipe, device) as training:
        return training.train()


@contextlib.contextmanager
def prepared(recipe: Recipe, device: Device) -> Iterator[Training]:
    """The parts of a run, made and not started: what :func:`run` does before it trains."""
    from hetero import comm
    from hetero.comm import environment

    # Started by torchrun, each rank takes the device of its own number.
    spec = device if environment.read() is None else device.vendor
    with contextlib.ExitStack() as held:
        communicator = held.enter_context(comm.init(spec))
        if recipe.ops:
            held.enter_context(ops.use(recipe.ops))
        ops.check_policy(communicator.device)
        run_dir = Path(recipe.output_dir)
        on_rank_0(communicator, lambda: _claim(run_dir, recipe, held))
        yield Training(recipe, communicator.device, communicator, run_dir)


def _claim(run_dir: Path, recipe: Recipe, held: contextlib.ExitStack) -> None:
    held.enter_context(RunLock(run_dir))
    resume = bool(recipe.resume_from_checkpoint)
    rundir.claim(run_dir, overwrite=recipe.overwrite_output_dir, resume=resume)


class Training:
    """The parts of one run, put together in the order in which they can fail cheaply."""

    def __init__(self, recipe: Recipe, device: Device, comm: Communicator, run_dir: Path) -> None:
        from hetero.train import model as models
        from hetero.train.patching import patch

        self.recipe, self.device, self.comm, self.run_dir = recipe, device, comm, run_dir
        self.main = comm.rank == 0
        rng.seed_all(recipe.seed)
        self.model, self.tokenizer = models.load(recipe, device)
        self.patched = patch(self.model)
        self.algorithm = algorithms.create(recipe, self.tokenizer)
        self.algorithm.check(self.model)
        self.examples, self.data = self.algorithm.prepare("train")
        self.held_out = self.algorithm.prepare("eval") if recipe.has_eval else None
        if not len(self.examples):
            raise DataError(f"{recipe.dataset_name}: there is nothing to train on")
        if recipe.gradient_checkpointing:
            checkpoint_activations(self.model)
        if recipe.neftune_noise_alpha is not None:
            algorithms.add_noise(self.model, recipe.neftune_noise_alpha)
        self.optimizer = AdamW(
            self.model.named_parameters(),
            recipe.learning_rate,
            betas=(recipe.adam_beta1, recipe.adam_beta2),
            eps=recipe.adam_epsilon,
            weight_decay=recipe.weight_decay,
        )
        shape = self.algorithm.windows(recipe)
        self.source = Windows(self.examples, self._sampler(shape.rows), shape.lists, shape.repeats)
        self.total = (
            recipe.max_steps
            if recipe.max_steps > 0
            else math.ceil(recipe.num_train_epochs * self.source.steps_per_epoch)
        )
        self.engine = Engine(self.model, self.algorithm, device, comm)
        splits = {"train": self.examples} | ({"eval": self.held_out[0]} if self.held_out else {})
        self.algorithm.begin(self.engine, splits)
        self.checkpointer = self._checkpointer()

    def _sampler(self, rows: int) -> Sampler:
        recipe, comm = self.recipe, self.comm
        return Sampler(
            len(self.examples),
            rows,
            rank=comm.rank,
            world_size=comm.world_size,
            shuffle=recipe.shuffle_dataset,
            seed=recipe.seed,
            lengths=self.examples.lengths() if recipe.group_by_length else None,  # type: ignore[attr-defined]
        )

    def _checkpointer(self) -> Checkpointer:
        recipe = self.recipe
        return Checkpointer(
            self.run_dir,
            model=self.model,
            tokenizer=self.tokenizer,
            optimizer=self.optimizer,
            stateful={"data": self.source, "algorithm": self.algorithm},
            modules=self.algorithm.modules(),
            identity=Identity(
                recipe.model_dump(mode="json"),
                self.data.content_hash,
                tuple(recipe.resume_allow_changes or ()),
            ),
            device=self.device,
            comm=self.comm,
            keep=recipe.save_total_limit,
        )

    def train(self) -> RunResult:
        """Run the loop, then leave the model and the reports in the run directory."""
        started = time.monotonic()
        ops.reset_placement()
        progress = self._start()
        console = Console(self.total, start=progress.step) if self.main else None
        with contextlib.ExitStack() as open_things:
            signals = open_things.enter_context(StopSignals())
            log = MetricLog([], 1)
            if console is not None:
                self._introduce(console, progress)
                log = MetricLog.open(self.run_dir, self.recipe.report_to, self.recipe.logging_steps, console)
            open_things.callback(log.close)
            machine = Machine(self.model, self.device, self.comm.world_size)
            last, stopped = Loop(
                self.recipe,
                total_steps=self.total,
                source=self.source,
                stepper=Stepper(
                    self.model, self.algorithm, self.engine, self.optimizer, self.recipe.max_grad_norm
                ),
                metrics=log,
                checkpointer=self.checkpointer,
                signals=signals,
                evaluate=self._evaluate if self.held_out is not None else None,
                extra=machine.numbers,
                after_step=lambda step: self.algorithm.after_step(self.model, step),
            ).run(progress)
        if stopped:
            return self._interrupted(progress, signals, last, console)
        results = on_rank_0(self.comm, lambda: self._finish(last, time.monotonic() - started))
        if console is not None:
            self._conclude(console, results)
        return RunResult(progress.step, self.run_dir, results)

    def _start(self) -> Progress:
        """Progress so far: none, or that of the checkpoint that is gone on from."""
        resume = self.recipe.resume_from_checkpoint
        path = Path(resume) if isinstance(resume, str) else self.checkpointer.newest() if resume else None
        # Ranks draw different dropout; the weights were drawn before, alike.
        rng.seed_all(self.recipe.seed + self.comm.rank)
        progress = self.checkpointer.restore(path) if path is not None else Progress()
        on_rank_0(self.comm, lambda: self._record(progress))
        return progress

    def _record(self, progress: Progress) -> None:
        with files.translated(str(self.run_dir)):
            (self.run_dir / rundir.RECIPE).write_text(self.recipe.to_yaml(), encoding="utf-8")
            (self.run_dir / rundir.RESULTS).unlink(missing_ok=True)
            jsonl.truncate_after(self.run_dir / jsonl.NAME, progress.step)

    def _evaluate(self) -> dict[str, float]:
        assert self.held_out is not None
        examples, _ = self.held_out
        size = self.recipe.per_device_eval_batch_size
        return evaluate(self.model, self.algorithm, self.engine, examples, size)

    def _interrupted(
        self, progress: Progress, signals: StopSignals, last: dict[str, Any], console: Console | None
    ) -> RunResult:
        number = signals.received or signal.SIGTERM  # another rank's signal stopped this one too
        if console is not None:
            console.say(
                f"stopped by {signal.Signals(number).name} after step {progress.step}, which is saved; "
                "go on with resume_from_checkpoint=true"
            )
        return RunResult(progress.step, self.run_dir, last, number)

    def _finish(self, last: dict[str, Any], seconds: float) -> dict[str, Any]:
        from hetero.train.export import save_model

        rundir.publish(self.run_dir, lambda work: save_model(self.model, self.tokenizer, work))
        # A run that had nothing left to do says what its last step came to.
        results = (last or report.last_row(self.run_dir)) | report.totals(self.run_dir, seconds)
        if self.device.emulated:
            results["emulated"] = True
        with files.translated(str(self.run_dir)):
            files.write_json(self.run_dir / rundir.RESULTS, jsonl.plain(results))
            report.loss_curve(self.run_dir)
        return results

    def _introduce(self, console: Console, progress: Progress) -> None:
        from hetero.train.model.lora import trainable_report

        console.say(str(trainable_report(self.model)))
        console.say(str(self.patched))
        console.say(self.data.summary())
        if self.held_out is not None:
            console.say(self.held_out[1].summary())
        where = f"{self.comm.world_size} x {self.device}" if self.comm.world_size > 1 else str(self.device)
        where += " (emulated: speeds mean nothing)" if self.device.emulated else ""
        going_on = f", going on after step {progress.step}" if progress.step else ""
        console.say(f"{self.total} steps on {where}{going_on}; everything goes to {self.run_dir}")

    def _conclude(self, console: Console, results: dict[str, Any]) -> None:
        from hetero.train.metrics.console import describe

        console.say(f"done: {describe(results)}")
        console.say("what ran where:\n  " + ops.placement_summary().replace("\n", "\n  "))
        console.say(f"model, metrics and {report.CURVE} are in {self.run_dir}")


def checkpoint_activations(model: Any) -> None:
    """Recompute activations in the backward pass. An adapter needs gradients to flow from the embeddings."""
    # The second name is that of Transformers before 5.2x, deprecated since.
    new = getattr(model, "activation_checkpointing_enable", None)
    if new is not None:
        new({"use_reentrant": False})
    else:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if hasattr(model, "peft_config"):
        model.enable_input_require_grads()
