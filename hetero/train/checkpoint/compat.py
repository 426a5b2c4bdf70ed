"""May this run go on from that checkpoint? Shows what differs, and refuses what would change the numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hetero.errors import CheckpointError

#: Recipe keys that may differ on resume: they change how long training goes on or what is written about it,
#: never what a step computes. (``max_steps`` and ``num_train_epochs`` stretch a decaying schedule.)
MAY_CHANGE = frozenset(
    {
        "max_steps", "num_train_epochs",
        "output_dir", "overwrite_output_dir", "resume_from_checkpoint", "resume_allow_changes",
        "logging_steps", "report_to", "run_name",
        "save_steps", "save_strategy", "save_total_limit",
        "eval_steps", "eval_strategy", "per_device_eval_batch_size",
        "ref_cache_dir",
    }
)  # fmt: skip


def differences(saved: dict[str, Any], current: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """``{key: "old -> new"}`` for every key whose value differs; nested keys are joined with dots."""
    found: dict[str, str] = {}
    for key in sorted({*saved, *current}):
        old, new = saved.get(key), current.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found |= differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found[prefix + key] = f"{old!r} -> {new!r}"
    return found


def check(
    saved: dict[str, Any], current: dict[str, Any], *, where: str, allowed: Iterable[str] = ()
) -> dict[str, str]:
    """Compare two identities: ``{"recipe": {...}, "data": hash, "op_policy": text, "world_size": n}``.

    ``allowed`` are further keys (first part of a recipe key, "data" or "op_policy") that the user lets
    change; "all" is every one of them except the world size.
    Returns the allowed differences. Raises :class:`CheckpointError` with the list of the others.
    """
    if saved["world_size"] != current["world_size"]:
        before, now = saved["world_size"], current["world_size"]
        raise CheckpointError(
            f"{where} was written by {before} process(es) and this run has {now}. Each process has random "
            "numbers of its own and other rows, so the run would not be the same: "
            f"start {before} process(es), or start from the weights alone with model_name_or_path={where}"
        )
    changed = differences(saved["recipe"], current["recipe"])
    if saved["data"] != current["data"]:
        changed["data"] = f"content {str(saved['data'])[:12]} -> {str(current['data'])[:12]}"
    if saved["op_policy"] != current["op_policy"]:
        changed["op_policy"] = f"{saved['op_policy']!r} -> {current['op_policy']!r}"
    may = MAY_CHANGE | set(allowed)
    refused = {k: v for k, v in changed.items() if k.split(".")[0] not in may and "all" not in may}
    if refused:
        lines = "\n".join(f"  {key}: {change}" for key, change in refused.items())
        raise CheckpointError(
            f"{where} belongs to a run with other settings:\n{lines}\n"
            "Undo them, use a new output_dir, or name them in resume_allow_changes to go on regardless."
        )
    return changed
