"""What a finished run leaves to look at: ``loss_curve.png`` and the closing summary."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from hetero.train.metrics import jsonl

CURVE = "loss_curve.png"


def loss_curve(run_dir: Path) -> Path | None:
    """Draw training and evaluation loss over steps from ``metrics.jsonl``; None when there is nothing.

    The thin line is every step, the thick one an exponential average that forgets over about 5 % of the run.
    """
    rows = jsonl.read(run_dir / jsonl.NAME)
    train = [(r["step"], r["loss"]) for r in rows if r.get("loss") is not None]
    held_out = [(r["step"], r["eval_loss"]) for r in rows if r.get("eval_loss") is not None]
    if not train:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    steps, losses = zip(*train, strict=True)
    axes.plot(steps, losses, color="tab:blue", alpha=0.35, linewidth=1, label="loss, each step")
    axes.plot(steps, _smoothed(losses), color="tab:blue", linewidth=2, label="loss, smoothed")
    if held_out:
        axes.plot(*zip(*held_out, strict=True), "o-", color="tab:orange", label="loss, held-out data")
    axes.set(xlabel="step", ylabel="loss", title=run_dir.name)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(run_dir / CURVE)
    return run_dir / CURVE


def _smoothed(values: tuple[float, ...]) -> list[float]:
    """Exponential average, corrected for its start so that the first points are not pulled to anything."""
    keep = 1 - 1 / max(1.0, len(values) / 20)
    average, weight, out = 0.0, 0.0, []
    for value in values:
        average, weight = keep * average + (1 - keep) * value, keep * weight + (1 - keep)
        out.append(average / weight)
    return out


def last_row(run_dir: Path) -> dict[str, Any]:
    """The numbers of the last step in ``metrics.jsonl``, those of an evaluation after it included."""
    rows = jsonl.read(run_dir / jsonl.NAME)
    last: dict[str, Any] = {}
    for row in rows:
        last = last | row if row.get("step") == last.get("step") else row
    return last


def totals(run_dir: Path, seconds: float) -> dict[str, Any]:
    """Sums over the whole run, from ``metrics.jsonl``, under Transformers' names.

    ``seconds`` is how long this process ran. Rates are over the time that steps took, by their ``step_time``.
    """
    rows = [r for r in jsonl.read(run_dir / jsonl.NAME) if "loss" in r]
    losses = [r["loss"] for r in rows if r["loss"] is not None]
    busy = math.fsum(r["step_time"] for r in rows)
    return {
        "train_runtime": seconds,
        "train_loss": math.fsum(losses) / len(losses) if losses else None,
        "train_steps_per_second": len(rows) / busy if busy else None,
        "train_tokens_per_second": rows[-1]["num_tokens"] / busy if busy else None,
    }
