"""How ranks ask each other what they are doing, once something has gone wrong.

Every rank listens on a socket of its own and answers with its :class:`Progress`. A collective costs two
attribute writes for it and no traffic; only a failure makes ranks call each other:

- refused or reset: the process is gone (the kernel closes the socket with it),
- accepted and no answer: the process is frozen, or holds the interpreter lock,
- no route or no reply to the connection: the host is gone or a firewall drops it,
- an answer: the process lives, and says what it is in.

A rank that has found the culprit tells the others (``verdict``), so that all name the same one, and a rank
that was frozen meanwhile learns it when it wakes.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import weakref
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from hetero.comm.errors import CollectiveTimeout, PeerLost, from_wire
from hetero.comm.rendezvous import is_loopback

#: Seconds a rank has to accept, and then to answer; a quarter of it for one to state what it wants.
_PATIENCE = 2.0
_LIMIT = 1 << 20


@dataclass
class Progress:
    """What this rank is doing. ``calls``: group name -> (sequence, call, running)."""

    calls: dict[str, tuple[int, str, bool]] = field(default_factory=dict)
    group: str = ""
    since: float = field(default_factory=time.monotonic)

    def enter(self, group: str, sequence: int, call: str) -> None:
        self.calls[group] = (sequence, call, True)
        self.group, self.since = group, time.monotonic()

    def leave(self, group: str, sequence: int, call: str) -> None:
        self.calls[group] = (sequence, call, False)
        self.group, self.since = group, time.monotonic()

    def tell(self) -> dict[str, Any]:
        return {"calls": dict(self.calls), "group": self.group, "seconds": time.monotonic() - self.since}


@dataclass(frozen=True)
class Answer:
    """What asking a rank gave. ``state``: "lost", "frozen", "unreachable", or "alive" with ``progress``."""

    state: str
    progress: dict[str, Any] = field(default_factory=dict)

    def entered(self, group: str, sequence: int) -> bool:
        """Whether the rank is in call ``sequence`` of ``group``, or past it."""
        return self.progress.get("calls", {}).get(group, (0,))[0] >= sequence

    def running(self, group: str) -> bool:
        """Whether the rank is in any call of ``group``."""
        return bool(self.progress.get("calls", {}).get(group, (0, "", False))[2])

    def __str__(self) -> str:
        if self.state == "frozen":
            return "frozen: it does not answer (stopped, or native code holds its interpreter)"
        if self.state == "unreachable":
            return "unreachable: its host does not answer"
        if self.state == "lost":
            return "gone: its process has ended, or closed its communicator"
        sequence, call, running = self.progress["calls"].get(self.progress["group"], (0, "", False))
        if not sequence:
            return "alive, in no collective so far"
        doing = (
            f"in {call}, number {sequence}"
            if running
            else f"outside collectives, after {call}, number {sequence}"
        )
        return f"{doing}, since {self.progress['seconds']:.1f} s"


class Peers:
    """This rank's socket and the others' addresses.

    Args:
        rank: own global rank.
        address: what others reach this host by.
    """

    def __init__(self, rank: int, address: str) -> None:
        self.rank = rank
        self.progress = Progress()
        self.verdict: PeerLost | CollectiveTimeout | None = None
        self._job = ""
        self._others: dict[int, tuple[str, int]] = {}
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server(
            (address if is_loopback(address) else "", 0), family=family, backlog=256
        )
        self.address = (address, self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, name="hetero-peers", daemon=True)
        # A forked child (a data loader's worker) must let go of the socket, or its parent would seem alive
        # after its death.
        close_in_child = weakref.WeakMethod(self._listener.close)
        os.register_at_fork(after_in_child=lambda: (close := close_in_child()) and close())

    def start(self, job: str, others: dict[int, tuple[str, int]]) -> None:
        """Begin to answer members of ``job``; ``others``: global rank -> (host, port)."""
        self._job, self._others = job, others
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
            self._thread.join()
        self._listener.close()

    def ask(self, ranks: Iterable[int]) -> dict[int, Answer]:
        """Ask ``ranks``, all at once. Takes 4 s at most."""
        return self._call(ranks, None)

    def tell(self, verdict: PeerLost | CollectiveTimeout, skip: Iterable[int] = ()) -> None:
        """Give every rank but ``skip`` the verdict. One that is frozen finds it when it wakes."""
        self._call(set(self._others) - set(skip), verdict.to_wire())

    # -- asking
    def _call(self, ranks: Iterable[int], verdict: dict[str, Any] | None) -> dict[int, Answer]:
        others = [r for r in ranks if r != self.rank]
        if not others:
            return {}
        with ThreadPoolExecutor(min(len(others), 32)) as pool:
            return dict(zip(others, pool.map(lambda rank: self._call_one(rank, verdict), others)))

    def _call_one(self, rank: int, verdict: dict[str, Any] | None) -> Answer:
        try:
            line = socket.create_connection(self._others[rank], timeout=_PATIENCE)
        except (ConnectionRefusedError, ConnectionResetError):
            return Answer("lost")
        except OSError:
            return Answer("unreachable")
        with line:
            try:
                _send(line, {"job": self._job, "verdict": verdict})
                line.settimeout(_PATIENCE if verdict is None else _PATIENCE / 4)
                reply = _receive(line)
            except TimeoutError:
                return Answer("frozen")
            except (OSError, ValueError):
                return Answer("lost")  # cut off, or another program has the port by now
        if reply.get("job") != self._job:
            return Answer("lost")
        return Answer("alive", reply["progress"])

    # -- answering
    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return  # closed
            with line:
                line.settimeout(_PATIENCE / 4)
                try:
                    self._answer(line)
                except (OSError, ValueError):
                    continue  # a stranger, or a caller that gave up: nothing of ours is lost

    def _answer(self, line: socket.socket) -> None:
        request = _receive(line)
        if request.get("job") != self._job:
            raise ValueError("not of this job")
        if request["verdict"] is not None and self.verdict is None:
            self.verdict = from_wire(request["verdict"])
        _send(line, {"job": self._job, "progress": self.progress.tell()})


def own_address(address: str, port: int) -> str:
    """The address of this host on the way to ``address``: what others of the job can reach it by."""
    family, kind, _, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(target)  # a datagram socket: chooses a route, sends nothing
        return probe.getsockname()[0]


def _send(line: socket.socket, message: dict[str, Any]) -> None:
    line.sendall(json.dumps(message).encode() + b"\n")


def _receive(line: socket.socket) -> dict[str, Any]:
    with line.makefile("rb") as stream:
        text = stream.readline(_LIMIT)
    if not text.endswith(b"\n"):
        raise ValueError("cut off")
    message = json.loads(text)
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message
