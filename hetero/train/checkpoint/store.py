"""Saves and restores all state of a training run through one :class:`Checkpointer`."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

import hetero
from hetero import ops
from hetero.train.checkpoint import compat, directory, files, rng, weights
from hetero.train.distributed import on_rank_0
from hetero.train.optim import AdamW
from hetero.train.progress import Progress

if TYPE_CHECKING:
    from hetero.accelerator import Device
    from hetero.comm import Communicator

OPTIMIZER = "optimizer.safetensors"
STATE = "trainer_state.json"
RECIPE = "recipe.json"


class Stateful(Protocol):
    """Anything with state that JSON can hold, such as the position in the data."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Identity:
    """What must be the same for a run to be the continuation of another."""

    recipe: dict[str, Any]
    data_hash: str
    allow: tuple[str, ...] = ()


def _versions() -> dict[str, str]:
    import transformers

    return {
        "hetero": hetero.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }


class Checkpointer:
    """Writes ``run_dir/checkpoint-N`` from the live objects of a run, and puts one back into them.

    ``stateful`` are further parts by name (the data loader, the algorithm); each is saved for every rank.
    ``modules`` are further models by name, the same on every rank, as ``<name>.safetensors``.
    Both methods are collective: every rank calls them at the same step, rank 0 writes.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        model: Any,
        tokenizer: Any,
        optimizer: AdamW,
        stateful: dict[str, Stateful],
        identity: Identity,
        device: Device,
        comm: Communicator,
        keep: int | None = None,
        modules: Mapping[str, nn.Module] | None = None,
    ) -> None:
        self.run_dir = run_dir
        self._modules = modules or {}
        self._model, self._tokenizer, self._optimizer = model, tokenizer, optimizer
        self._stateful, self._identity = stateful, identity
        self._device, self._comm, self._keep = device, comm, keep

    def save(self, progress: Progress) -> Path:
        """Write the checkpoint of ``progress.step``, then delete those beyond the number to keep.

        Raises :class:`CheckpointError` on every rank when rank 0 cannot write; older ones are untouched then.
        """
        mine = {
            "rng": rng.capture(self._device),
            **{name: part.state_dict() for name, part in self._stateful.items()},
        }
        ranks = self._comm.all_gather_object(mine)
        final = directory.path_of(self.run_dir, progress.step)
        on_rank_0(self._comm, lambda: self._write(final, progress, ranks))
        return final

    def _write(self, final: Path, progress: Progress, ranks: list[dict[str, Any]]) -> None:
        with files.committing(final, step=progress.step, world_size=self._comm.world_size) as work:
            weights.write(self._model, work)
            if self._tokenizer is not None:
                self._tokenizer.save_pretrained(str(work))
            weights.save_tensors(self._optimizer.tensors(), work / OPTIMIZER)
            for name, module in self._modules.items():
                weights.write_module(module, work / f"{name}.safetensors")
            files.write_json(work / RECIPE, self._identity.recipe)
            files.write_json(
                work / STATE,
                {
                    "progress": progress.as_dict(),
                    "optimizer_steps": self._optimizer.steps(),
                    "data_hash": self._identity.data_hash,
                    "op_policy": ops.current_policy().text,
                    "versions": _versions(),
                },
            )
            for rank, state in enumerate(ranks):
                files.write_json(work / f"rank_{rank}.json", state)
        directory.prune(self.run_dir, self._keep)

    def newest(self) -> Path | None:
        """The newest sound checkpoint of the run, the same on every rank; None when there is none yet."""
        path = on_rank_0(self._comm, lambda: str(directory.newest_sound(self.run_dir) or ""))
        return Path(path) if path else None

    def restore(self, path: Path) -> Progress:
        """Put the checkpoint at ``path`` back. Random numbers last: nothing may draw from them afterwards.

        Raises :class:`CheckpointError` when it is damaged or belongs to a run with other settings.
        """
        manifest = on_rank_0(self._comm, lambda: files.verify(path))
        state = files.read_json(path / STATE)
        compat.check(
            {
                "recipe": files.read_json(path / RECIPE),
                "data": state["data_hash"],
                "op_policy": state["op_policy"],
                "world_size": manifest["world_size"],
            },
            {
                "recipe": self._identity.recipe,
                "data": self._identity.data_hash,
                "op_policy": ops.current_policy().text,
                "world_size": self._comm.world_size,
            },
            where=str(path),
            allowed=self._identity.allow,
        )
        weights.read(self._model, path)
        for name, module in self._modules.items():
            weights.read_module(module, path / f"{name}.safetensors")
        self._optimizer.load(weights.load_tensors(path / OPTIMIZER), state["optimizer_steps"])
        mine = files.read_json(path / f"rank_{self._comm.rank}.json")
        for name, part in self._stateful.items():
            part.load_state_dict(mine[name])
        for package, version in _versions().items():
            if state["versions"][package] != version:
                before = state["versions"][package]
                warnings.warn(
                    f"{path} was written with {package} {before}, this is {version}: numbers may differ in "
                    "their last digits from a run without the break",
                    stacklevel=2,
                )
        rng.restore(mine["rng"], self._device)
        return Progress(**state["progress"])
