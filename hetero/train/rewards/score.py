"""Calling reward functions on a batch of completions."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hetero.errors import HeteroError, RolloutError
from hetero.train.rewards.load import RewardFunction


class Rewards:
    """Several reward functions with names and weights.

    A function that raises, or gives the wrong number of values, is an error that names it: a value that went to
    another completion would train the model on it in silence. ``on_error="skip"`` instead leaves that function
    out for the batch (its values are None) and counts it in :attr:`failures`. A NaN or an infinity is None for
    its own completion, and is counted too.
    """

    def __init__(
        self,
        functions: Mapping[str, RewardFunction],
        weights: Sequence[float] | None = None,
        on_error: str = "raise",
    ) -> None:
        if not functions:
            raise RolloutError("there is no reward function; name at least one in reward_funcs")
        self.names = tuple(functions)
        self.weights = tuple(weights) if weights is not None else (1.0,) * len(functions)
        if len(self.weights) != len(self.names):
            raise RolloutError(f"{len(self.weights)} reward_weights for {len(self.names)} reward_funcs")
        self.failures = dict.fromkeys(self.names, 0)
        self._functions, self._on_error = tuple(functions.values()), on_error

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        columns: Mapping[str, Sequence[Any]],
    ) -> list[list[float | None]]:
        """Values [completion][function], in order; None where a function does not apply."""
        given = dict(columns) | {"completion_ids": completion_ids}
        values = asyncio.run(self._all(prompts, completions, given))
        return [list(row) for row in zip(*values)]

    async def _all(
        self, prompts: Sequence[Any], completions: Sequence[Any], given: Mapping[str, Any]
    ) -> list[list[float | None]]:
        calls = (self._one(n, f, prompts, completions, given) for n, f in zip(self.names, self._functions))
        return list(await asyncio.gather(*calls))

    async def _one(
        self,
        name: str,
        function: RewardFunction,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        given: Mapping[str, Any],
    ) -> list[float | None]:
        try:
            # Each function has lists of its own: one that sorts or empties them disturbs no other.
            own = {key: list(v) if isinstance(v, (list, tuple)) else v for key, v in given.items()}
            values = function(prompts=list(prompts), completions=list(completions), **own)
            if inspect.isawaitable(values):
                values = await values
            values = list(values)
            if len(values) != len(completions):
                raise RolloutError(f"it gave {len(values)} values for {len(completions)} completions")
            numbers = [None if v is None else float(v) for v in values]
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            return self._failed(name, error, len(completions))
        wrong = [i for i, v in enumerate(numbers) if v is not None and not math.isfinite(v)]
        self.failures[name] += len(wrong)
        return [None if i in wrong else v for i, v in enumerate(numbers)]

    def _failed(self, name: str, error: Exception, count: int) -> list[float | None]:
        if self._on_error == "raise":
            kind = "" if isinstance(error, HeteroError) else f"{type(error).__name__}: "
            raise RolloutError(f"reward {name}: {kind}{error}") from error
        self.failures[name] += count
        return [None] * count
