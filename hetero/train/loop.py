"""The training loop, one for all algorithms."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from hetero.train import schedule
from hetero.train.algorithms.base import Example
from hetero.train.checkpoint import Checkpointer
from hetero.train.errors import TrainingError
from hetero.train.metrics import MetricLog
from hetero.train.progress import Progress
from hetero.train.signals import StopSignals
from hetero.train.window import Stepper, StepResult

#: So many steps in a row without a finite loss and gradient end the run: it will not recover by itself.
MAX_SKIPPED_IN_A_ROW = 10


class Source(Protocol):
    """Where windows come from: for each, this rank's micro-batches. Endless, epoch after epoch."""

    def next_window(self) -> list[list[Example]]: ...

    @property
    def epoch(self) -> float: ...


class Loop:
    """Runs windows until ``total_steps`` or a stop signal; logs every step, evaluates and saves when due.

    ``evaluate`` returns metrics to log, and is called each ``eval_steps`` and at the end (None: never).
    ``extra`` adds numbers about the machine to a row: memory, MFU. ``after_step`` is told each step's number.
    """

    def __init__(
        self,
        recipe: Any,
        *,
        total_steps: int,
        source: Source,
        stepper: Stepper,
        metrics: MetricLog,
        checkpointer: Checkpointer,
        signals: StopSignals,
        evaluate: Callable[[], dict[str, float]] | None = None,
        extra: Callable[[StepResult, float], dict[str, float]] | None = None,
        after_step: Callable[[int], None] | None = None,
    ) -> None:
        self._recipe, self._total = recipe, total_steps
        self._source, self._stepper, self._metrics = source, stepper, metrics
        self._checkpointer, self._signals = checkpointer, signals
        self._evaluate, self._extra, self._after_step = evaluate, extra, after_step
        self._warmup = schedule.warmup_steps(total_steps, recipe.warmup_steps, recipe.warmup_ratio)

    def run(self, progress: Progress) -> tuple[dict[str, float], bool]:
        """Train on from ``progress``, which is kept up to date.

        Returns the last row of metrics, and whether a stop signal ended the run early, on this rank or
        another; the step it came in was finished and saved. Raises
        :class:`TrainingError` after :data:`MAX_SKIPPED_IN_A_ROW` steps that were not finite.
        """
        last: dict[str, float] = {}
        stop = False
        while progress.step < self._total and not stop:
            started = time.monotonic()
            lr = self._recipe.learning_rate * schedule.factor(
                self._recipe.lr_scheduler_type, progress.step, self._total, self._warmup
            )
            result = self._stepper(self._source.next_window(), lr, lambda: bool(self._signals.received))
            stop = result.stop
            self._advance(progress, result)
            if self._after_step is not None:
                self._after_step(progress.step)
            last = self._row(progress, result, lr, time.monotonic() - started)
            final = progress.step == self._total
            self._metrics.write(last, always=final or not result.applied)
            self._give_up_if_stuck(progress, result)
            if final or (self._due(self._recipe.eval_steps, progress) and not stop):
                last |= self._evaluated(progress)
            if stop or final or self._due(self._recipe.save_steps, progress):
                self._checkpointer.save(progress)
        return last, stop and progress.step < self._total

    def _evaluated(self, progress: Progress) -> dict[str, float]:
        if self._evaluate is None:
            return {}
        found = self._evaluate()
        self._metrics.write({"step": progress.step, "epoch": progress.epoch, **found}, always=True)
        return found

    @staticmethod
    def _due(every: int | None, progress: Progress) -> bool:
        return bool(every and progress.step % every == 0)

    def _advance(self, progress: Progress, result: StepResult) -> None:
        progress.step += 1
        progress.tokens += result.tokens
        progress.epoch = self._source.epoch
        if result.applied:
            progress.skipped_in_a_row = 0
            return
        progress.skipped += 1
        progress.skipped_in_a_row += 1

    @staticmethod
    def _give_up_if_stuck(progress: Progress, result: StepResult) -> None:
        if progress.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise TrainingError(
                f"step {progress.step}: the loss ({result.loss}) or the gradient norm ({result.grad_norm}) "
                f"was not finite {progress.skipped_in_a_row} times in a row, and no such step was applied. "
                "Try a lower learning_rate, or look at the data of these steps"
            )

    def _row(self, progress: Progress, result: StepResult, lr: float, seconds: float) -> dict[str, float]:
        row: dict[str, float] = {
            "step": progress.step,
            "epoch": round(progress.epoch, 6),
            "loss": result.loss,
            "grad_norm": result.grad_norm,
            "learning_rate": lr,
            "num_tokens": progress.tokens,
            **result.metrics,
            "step_time": seconds,
            "tokens_per_second": result.tokens / seconds,
        }
        if progress.skipped:
            row["skipped_steps"] = progress.skipped
        return row | (self._extra(result, seconds) if self._extra else {})
