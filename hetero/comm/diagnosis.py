"""From a library's error ("Connection closed by peer") to which rank, in which call, doing what instead."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TypeVar

from hetero.comm.errors import CollectiveTimeout, CommError, PeerLost
from hetero.comm.peers import Answer, Peers

Verdict = TypeVar("Verdict", PeerLost, CollectiveTimeout)

#: Seconds in which the cause of a broken connection must show: a process's sockets close together.
_SETTLE = 2.0


@dataclass(frozen=True)
class Call:
    """A call under way. ``key`` names its sequence of calls, ``sequence`` its number there.

    ``paired``: point-to-point, so ranks do not count alike and being in any such call is being in this one.
    """

    key: str
    sequence: int
    text: str
    ranks: tuple[int, ...]
    paired: bool = False

    def __str__(self) -> str:
        return f"{self.text}, number {self.sequence}"


def diagnose(error: RuntimeError, call: Call, peers: Peers, elapsed: float, timeout: float) -> CommError:
    """The typed error for ``error``, which a library raised ``elapsed`` seconds into ``call``.

    The verdict is given to every other rank and kept in ``peers.verdict``. A :class:`CommError` of
    no particular kind means that every peer is well and the library itself failed.
    """
    timed_out = elapsed >= 0.9 * timeout  # gloo may give up a little early
    deadline = time.monotonic() + _SETTLE
    while True:
        if peers.verdict is not None:
            return peers.verdict
        answers = peers.ask(call.ranks)
        if peers.verdict is not None:
            return peers.verdict
        lost = [rank for rank, answer in answers.items() if answer.state == "lost"]
        if lost:
            return announce(peers, PeerLost(lost, str(call), "killed, crashed, or finished early"))
        if timed_out:
            missing = [rank for rank, answer in answers.items() if not _inside(answer, call)]
            doing = {rank: str(answer) for rank, answer in answers.items()}
            doing[peers.rank] = f"in {call}"
            return announce(peers, CollectiveTimeout(call.text, call.sequence, missing, doing, timeout))
        if time.monotonic() > deadline:
            states = "; ".join(f"rank {rank} is {answer}" for rank, answer in answers.items())
            return CommError(f"{call} failed: {error}. The other ranks are there: {states}")
        time.sleep(0.1)


def announce(peers: Peers, verdict: Verdict) -> Verdict:
    """Keep ``verdict`` as this job's end, and tell every rank that can still hear it."""
    peers.verdict = verdict
    peers.tell(verdict, skip=verdict.ranks if isinstance(verdict, PeerLost) else ())
    return verdict


def _inside(answer: Answer, call: Call) -> bool:
    return answer.running(call.key) if call.paired else answer.entered(call.key, call.sequence)
