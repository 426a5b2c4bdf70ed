"""What can go wrong between ranks. Ranks in messages and attributes are global ranks.

All are :class:`hetero.errors.CommError`. :class:`PeerLost` and :class:`CollectiveTimeout` end the
communicator: the library's connections are gone, so every later call raises the same error again. The first
rank that knows tells the others, so all ranks name the same culprit (:meth:`PeerLost.to_wire`,
:func:`from_wire`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero.errors import CommError

__all__ = [
    "CollectiveMismatch",
    "CollectiveTimeout",
    "CommError",
    "HandshakeError",
    "PeerLost",
    "RendezvousError",
    "from_wire",
]


class PeerLost(CommError):
    """The process of a rank is gone.

    Attributes:
        rank: the lowest rank that is gone; ranks: all of them.
        call: what was being done when it was noticed.
        why: how that is known, or what the lost rank said last (its traceback, where it could say it).
    """

    def __init__(self, ranks: Sequence[int], call: str, why: str) -> None:
        self.ranks = tuple(ranks)
        self.rank = self.ranks[0]
        self.call = call
        self.why = why
        super().__init__(
            f"lost {_name(self.ranks)} during {call}: {why}. "
            "Restart the job; the cause is in that rank's own output"
        )

    def to_wire(self) -> dict[str, Any]:
        return {"error": "PeerLost", "ranks": list(self.ranks), "call": self.call, "why": self.why}


class CollectiveTimeout(CommError):
    """A rank did not take part in time.

    Attributes:
        call: the collective, as ``name(dtype[shape], ...)``; sequence: its number within its group, from 1.
        missing: ranks that did not enter it.
        doing: for every rank of the group, what it was last doing.
        seconds: the timeout that passed.
    """

    def __init__(
        self, call: str, sequence: int, missing: Sequence[int], doing: Mapping[int, str], seconds: float
    ) -> None:
        self.call = call
        self.sequence = sequence
        self.missing = tuple(missing)
        self.doing = dict(doing)
        self.seconds = seconds
        who = (
            f"{_name(self.missing)} did not enter it"
            if missing
            else "every rank entered it and none finished"
        )
        lines = "\n".join(f"  rank {rank}: {text}" for rank, text in sorted(self.doing.items()))
        super().__init__(
            f"{call}, number {sequence} of its group, timed out after {seconds:g} s: {who}.\n{lines}\n"
            "If a rank is only slow, raise timeout= of hetero.comm.init or HETERO_COMM_TIMEOUT (seconds)"
        )

    def to_wire(self) -> dict[str, Any]:
        return {
            "error": "CollectiveTimeout",
            "call": self.call,
            "sequence": self.sequence,
            "missing": list(self.missing),
            "doing": list(self.doing.items()),
            "seconds": self.seconds,
        }


class CollectiveMismatch(CommError):
    """Ranks called different collectives, or with different shapes, dtypes or arguments. No data has moved.

    Every rank of the call raises it and the communicator stays usable.

    Attributes:
        sides: for every rank of the call, what it called.
    """

    def __init__(self, sides: Mapping[int, str]) -> None:
        self.sides = dict(sorted(sides.items()))
        by_call: dict[str, list[int]] = {}
        for rank, call in self.sides.items():
            by_call.setdefault(call, []).append(rank)
        lines = "\n".join(f"  {_name(ranks)}: {call}" for call, ranks in by_call.items())
        super().__init__(f"ranks do not agree on a collective; nothing was sent:\n{lines}")


class RendezvousError(CommError):
    """The ranks did not find each other. ``missing`` names those that never arrived, where that is known."""

    def __init__(self, message: str, missing: Sequence[int] = ()) -> None:
        self.missing = tuple(missing)
        super().__init__(message)


class HandshakeError(CommError):
    """Ranks differ in a fact that has to be the same.

    Attributes:
        facts: names of the facts that differ.
        table: the rank-by-fact table that the message prints.
    """

    def __init__(self, facts: Sequence[str], table: str) -> None:
        self.facts = tuple(facts)
        self.table = table
        super().__init__(
            f"ranks differ in {', '.join(self.facts)} (marked *); make them the same on every rank:\n{table}"
        )


def from_wire(message: Mapping[str, Any]) -> PeerLost | CollectiveTimeout:
    """The error that another rank reported.

    Raises:
        ValueError: ``message`` is not one of ``to_wire``'s.
    """
    kinds = {"PeerLost": PeerLost, "CollectiveTimeout": CollectiveTimeout}
    fields = dict(message)
    kind = kinds.get(str(fields.pop("error", None)))
    try:
        if kind is CollectiveTimeout:
            fields["doing"] = {int(rank): str(text) for rank, text in fields["doing"]}
        if kind is not None:
            return kind(**fields)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not an error report: {message!r}") from error
    raise ValueError(f"not an error report: {message!r}")


def _name(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
