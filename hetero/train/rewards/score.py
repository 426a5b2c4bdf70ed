"""Calling reward functions on a batch of completions."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hetero.errors import HeteroError, RolloutError
from hetero.train.rewards.load import RewardFunction
from hetero.train.rewards.model import RewardModel

log = logging.getLogger(__name__)

#: A function's values, and which of them were lost to a failure.
_Column = tuple[list[float | None], list[bool]]


class Rewards:
    """Several reward functions with names and weights.

    A function that raises, or gives the wrong number of values, is an error that names it: a value that went to
    another completion would train the model on it in silence. ``on_error="skip"`` instead leaves that function
    out for the batch (its values are None), warns, and counts it in :attr:`failures`. A NaN or an infinity is None for
    its own completion, and is counted too. A call that takes longer than ``timeout`` seconds has failed; what it
    does after that is not heard.

    Functions are called one after the other, each in a thread of its own; async ones run together.

    Attributes:
        failures: values of each function, by name, that were lost to a failure.
        failed: of the last call: [completion][function], whether that value was.
    """

    def __init__(
        self,
        functions: Mapping[str, RewardFunction],
        weights: Sequence[float] | None = None,
        on_error: str = "raise",
        timeout: float | None = None,
    ) -> None:
        if not functions:
            raise RolloutError("there is no reward function; name at least one in reward_funcs")
        self.names = tuple(functions)
        self.weights = tuple(weights) if weights is not None else (1.0,) * len(functions)
        if len(self.weights) != len(self.names):
            raise RolloutError(f"{len(self.weights)} reward_weights for {len(self.names)} reward_funcs")
        self.failures = dict.fromkeys(self.names, 0)
        self.failed: list[list[bool]] = []
        self._functions, self._on_error, self._timeout = tuple(functions.values()), on_error, timeout

    def to(self, device: torch.device) -> None:
        """Move reward models to the device that they shall run on."""
        for function in self._functions:
            if isinstance(function, RewardModel):
                function.to(device)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        columns: Mapping[str, Sequence[Any]],
    ) -> list[list[float | None]]:
        """Values [completion][function], in order; None where a function does not apply."""
        given = dict(columns) | {"completion_ids": completion_ids}
        columns_of = asyncio.run(self._all(prompts, completions, given))
        self.failed = [list(row) for row in zip(*(lost for _, lost in columns_of))]
        for name, (_, lost) in zip(self.names, columns_of):
            self.failures[name] += sum(lost)
        return [list(row) for row in zip(*(values for values, _ in columns_of))]

    async def _all(
        self, prompts: Sequence[Any], completions: Sequence[Any], given: Mapping[str, Any]
    ) -> list[_Column]:
        turn = asyncio.Lock()
        calls = (
            self._one(n, f, turn, prompts, completions, given) for n, f in zip(self.names, self._functions)
        )
        return list(await asyncio.gather(*calls))

    async def _one(
        self,
        name: str,
        function: RewardFunction,
        turn: asyncio.Lock,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        given: Mapping[str, Any],
    ) -> _Column:
        # Each function has lists of its own: one that sorts or empties them disturbs no other.
        own = {key: list(v) if isinstance(v, (list, tuple)) else v for key, v in given.items()}
        own |= {"prompts": list(prompts), "completions": list(completions)}
        try:
            async with turn:
                values = await asyncio.wait_for(_in_thread(function, own), self._timeout)
            if inspect.isawaitable(values):
                values = await asyncio.wait_for(values, self._timeout)
            values = list(values)
            if len(values) != len(completions):
                raise RolloutError(f"it gave {len(values)} values for {len(completions)} completions")
            numbers = [None if v is None else float(v) for v in values]
        except (asyncio.TimeoutError, TimeoutError):
            error: Exception = RolloutError(f"it took longer than {self._timeout} s (reward_timeout)")
            return self._failed(name, error, len(completions))
        except Exception as caught:  # noqa: BLE001 - user code may raise anything
            return self._failed(name, caught, len(completions))
        wrong = [v is not None and not math.isfinite(v) for v in numbers]
        if any(wrong):
            log.warning(
                "reward %s gave NaN or infinity for %d of %d completions", name, sum(wrong), len(wrong)
            )
        return [None if bad else v for v, bad in zip(numbers, wrong)], wrong

    def _failed(self, name: str, error: Exception, count: int) -> _Column:
        kind = "" if isinstance(error, HeteroError) else f"{type(error).__name__}: "
        if self._on_error == "raise":
            raise RolloutError(f"reward {name}: {kind}{error}") from error
        log.warning("reward %s failed and is left out for %d completions: %s%s", name, count, kind, error)
        return [None] * count, [True] * count


async def _in_thread(function: RewardFunction, arguments: Mapping[str, Any]) -> Any:
    """What ``function`` returns. Its thread is a daemon: one that hangs does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(set_it: Any, value: Any) -> None:
        if not done.done():  # given up
            set_it(value)

    def call() -> None:
        try:
            outcome = done.set_result, function(**arguments)
        except BaseException as error:  # noqa: BLE001 - SystemExit too: it would end the thread alone
            if not isinstance(error, Exception):
                error = RolloutError(f"it raised {type(error).__name__}")
            outcome = done.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=call, daemon=True, name="hetero-reward").start()
    return await done
