"""The run directory: may a run start here, and what an earlier run left that has to go.

Layout, as Transformers and TRL write it: the final model's ``config.json``, ``model.safetensors`` (or
``adapter_*`` ) and tokenizer files at the top, beside ``checkpoint-<step>/``, ``metrics.jsonl``, ``runs/``
(TensorBoard), ``recipe.yaml``, ``train_results.json`` and ``loss_curve.png``; ``.model.json`` lists the
files of the model.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from hetero.errors import CheckpointError
from hetero.train import report
from hetero.train.checkpoint import committed, files
from hetero.train.metrics import jsonl

RESULTS = "train_results.json"
RECIPE = "recipe.yaml"
#: The manifest of the published model: which of the files here are its.
MODEL = ".model.json"
_LOG_FILES = (jsonl.NAME, RESULTS, RECIPE, report.CURVE)


def claim(run_dir: Path, *, overwrite: bool, resume: bool) -> None:
    """Make ``run_dir`` ready for a run that holds its lock, on one rank.

    Raises :class:`CheckpointError` when an earlier run is there and neither ``overwrite`` nor ``resume`` is
    asked for. Overwriting deletes what hetero wrote, nothing else.
    """
    with files.translated(str(run_dir)):
        run_dir.mkdir(parents=True, exist_ok=True)
        files.remove_unfinished(run_dir)
        checkpoints = committed(run_dir)
        if not checkpoints and not any((run_dir / name).exists() for name in _LOG_FILES):
            return
        if overwrite:
            for _, path in checkpoints:
                files.remove(path)
            for name in sorted(_published(run_dir)):
                _delete(run_dir / name)
            for name in (*_LOG_FILES, MODEL):
                (run_dir / name).unlink(missing_ok=True)
            shutil.rmtree(run_dir / "runs", ignore_errors=True)
        elif not resume:
            state = "a finished run" if (run_dir / RESULTS).exists() else "an unfinished run"
            newest = f" (newest checkpoint: step {checkpoints[-1][0]})" if checkpoints else ""
            raise CheckpointError(
                f"{run_dir} holds {state}{newest}. Set resume_from_checkpoint=true to go on with it, "
                "overwrite_output_dir=true to delete it and start anew, or another output_dir"
            )


def publish(run_dir: Path, write: Callable[[Path], None]) -> None:
    """Let ``write(directory)`` write the final model beside the run, then move its files into ``run_dir``.

    Each file appears whole: a full disk leaves the run directory as it was. What an earlier model left
    there under other names goes: an adapter beside a whole model would be loaded with it.
    """
    work = run_dir / ".model"
    with files.committing(work) as directory:
        write(directory)
    with files.translated(str(run_dir)):
        old = _published(run_dir)
        # First of all: however this is interrupted, it is known which files are the model's.
        (work / files.MANIFEST).replace(run_dir / MODEL)
        for name in old - _published(run_dir):
            _delete(run_dir / name)
        for path in sorted(work.iterdir()):
            if path.is_dir():
                _delete(run_dir / path.name)  # a folder cannot be renamed to one that exists
            path.replace(run_dir / path.name)
        work.rmdir()


def _published(run_dir: Path) -> set[str]:
    """Names in ``run_dir`` of the files and folders of the model that was published there."""
    if not (run_dir / MODEL).exists():
        return set()
    return {PurePosixPath(name).parts[0] for name in files.read_json(run_dir / MODEL)["files"]} - {"..", "/"}


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
