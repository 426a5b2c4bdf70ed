"""The quickstart from start to end: fetch a model, judge it, train it, judge it again, show what changed."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hetero.errors import RecipeError
from hetero.quickstart import model as models
from hetero.quickstart import show, task
from hetero.quickstart.evaluate import Answers, generate
from hetero.quickstart.report import Report, Score

if TYPE_CHECKING:
    from hetero.accelerator import Device
    from hetero.train.recipe import Recipe

RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"
#: Three times the longest answer: the untrained model may repeat the question first.
MAX_NEW_TOKENS = 48


def run(device: Device, workdir: Path, steps: int | None = None) -> int:
    """Run it all on ``device`` and print the story; returns the process's exit code.

    The model is kept in ``workdir/.cache/quickstart``; the run and ``quickstart.json`` go to
    ``workdir/runs/quickstart``. ``steps`` replaces the recipe's ``max_steps``. The code is 0 when accuracy on
    held-out problems rose by :data:`hetero.quickstart.report.PROMISED_POINTS`, 1 when it did not, and
    128 + signal when training was stopped.

    Raises:
        HeteroError: the model or the problems cannot be had, or training failed.
    """
    return _Quickstart(device, workdir, steps).run()


@dataclass
class _Quickstart:
    device: Device
    workdir: Path
    steps: int | None
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self) -> int:
        from hetero.train import run as train

        cache = self.workdir / ".cache" / "quickstart"
        if not RECIPE.is_file():
            raise RecipeError(
                f"{RECIPE} is missing: the quickstart runs in a clone of the repository, installed with "
                "`pip install -e '.[quickstart]'`"
            )
        with self._timed("total"):
            problems = task.build()
            _hide_transformers_bars()
            show.introduction(problems, str(self.device))
            with self._timed("model"):
                folder = models.base_model(cache, show.step)
            recipe = self._recipe(folder, task.write_jsonl(problems.train, cache / "train.jsonl"))
            with self._timed("before"), show.working(f"asking {len(problems.held_out)} held-out problems"):
                before, known = self._before(recipe, problems, cache)
            show.score("before", Score.of(problems, before.texts), known=known)
            with self._timed("train"):
                result = train(recipe, self.device)
            if result.interrupted_by:
                return result.exit_code
            with (
                self._timed("after"),
                show.working(f"asking the same {len(problems.held_out)} problems again"),
            ):
                after = self._ask(recipe, problems, adapter=result.output_dir)
        report = Report.of(
            problems,
            before.texts,
            after.texts,
            device=str(self.device),
            steps=result.steps,
            tokens_per_second=result.metrics["train_tokens_per_second"],
            seconds=self.seconds,
        )
        report.write(result.output_dir)
        show.conclusion(report, result.output_dir)
        return 0 if report.passed else 1

    def _recipe(self, model: Path, data: Path) -> Recipe:
        from hetero.train.recipe import load

        changes: dict[str, str | int] = {
            "model_name_or_path": str(model.resolve()),
            "dataset_name": str(data.resolve()),
            "output_dir": str((self.workdir / "runs" / "quickstart").resolve()),
            "overwrite_output_dir": True,
            "device": str(self.device),
        }
        if self.steps is not None:
            changes["max_steps"] = self.steps
        # An override's value is YAML, of which JSON is a part.
        return load(RECIPE, [f"{key}={json.dumps(value)}" for key, value in changes.items()])

    def _before(self, recipe: Recipe, problems: task.Task, cache: Path) -> tuple[Answers, bool]:
        """The untrained model's answers, and whether they were known from an earlier run.

        They are kept under a hash of all that they depend on; how they are judged is not kept.
        """
        import torch
        import transformers

        depends = [
            models.WHEEL_SHA256, [p.prompt for p in problems.held_out], MAX_NEW_TOKENS, recipe.dtype,
            str(self.device), self.device.name, self.device.arch, torch.__version__, transformers.__version__,
        ]  # fmt: skip
        key = hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:16]
        path = cache / f"before-{key}.json"
        if path.is_file():
            return Answers(**json.loads(path.read_text(encoding="utf-8"))), True
        answers = self._ask(recipe, problems)
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(vars(answers)), encoding="utf-8")
        unfinished.replace(path)
        return answers, False

    def _ask(self, recipe: Recipe, problems: task.Task, adapter: Path | None = None) -> Answers:
        """Answers to the held-out problems by the base model, or with ``adapter`` merged into it.

        The model is loaded from files as any Transformers user would load it, unpatched: what is judged is
        what training left on disk.
        """
        from hetero.train.model import load

        model, tokenizer = load(recipe.model_copy(update={"use_peft": False}), self.device)
        if adapter is not None:
            from peft import PeftModel

            from hetero.train.model.lora import quiet_peft

            with quiet_peft():
                model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
        prompts = [problem.prompt for problem in problems.held_out]
        return generate(model, tokenizer, self.device, prompts, max_new_tokens=MAX_NEW_TOKENS)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[phase] = round(time.monotonic() - started, 1)


def _hide_transformers_bars() -> None:
    """They would run into ours, for the rest of this process."""
    from transformers.utils import logging

    logging.disable_progress_bar()
