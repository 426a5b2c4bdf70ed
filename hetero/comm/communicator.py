"""The communicator: the collectives, messages, objects, subgroups, and what it says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from hetero.comm import objects, precheck, tensors
from hetero.comm.collectives import Collectives
from hetero.comm.handshake import table
from hetero.comm.library import COLLECTIVES
from hetero.errors import CommError


@dataclass(frozen=True)
class Send:
    """In :meth:`Communicator.batch_p2p`: send ``tensor`` to rank ``peer`` of the group."""

    tensor: Tensor
    peer: int


@dataclass(frozen=True)
class Recv:
    """In :meth:`Communicator.batch_p2p`: receive into ``tensor`` from rank ``peer`` of the group."""

    tensor: Tensor
    peer: int


class Communicator(Collectives):
    """Collectives between ranks; made by :func:`hetero.comm.init` and :meth:`subgroup`.

    Ranks in arguments count within the group (0 to ``world_size - 1``); errors name global ranks. Tensors are
    on ``device``, dense, of any dtype, contiguous or not, empty or not. Calls return when a host tensor's
    result is there; a device's result is ordered on its current stream. Nothing is recorded for autograd.
    Results are the same bits every time for the same ranks and shapes as far as the library's own reductions
    are (gloo's are).

    Unless made with ``check=False``, ranks compare every call before data moves (a small exchange on the
    host), so that a mismatch is a :class:`CollectiveMismatch` on every rank, and the communicator can go on.

    Every call can raise PeerLost, CollectiveTimeout, CollectiveMismatch, and CommError for arguments that
    cannot work. The first two end the communicator.
    """

    def all_to_all(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Send ``inputs[r]``, of any shape, to rank r; returns what came from each rank, by rank.

        Shapes travel first, as an object collective; :meth:`all_to_all_single` saves that where they are
        known.
        """
        parts = tensors.check_list(inputs, "inputs", self.world_size, self.device.torch)
        shapes = [[int(n) for n in t.shape] for t in parts]
        coming = [torch.Size(theirs[self.rank]) for theirs in self.all_gather_object(shapes)]
        wants = [shape.numel() for shape in coming]
        out = parts[0].new_empty(sum(wants))
        flat = torch.cat([tensors.dense(t) for t in parts])
        self.all_to_all_single(out, flat, wants, [t.numel() for t in parts])
        return [part.view(shape) for part, shape in zip(out.split(wants), coming)]

    # -- point to point
    def send(self, t: Tensor, dst: int) -> None:
        """Send ``t`` to ``dst``; returns when it has taken it (or, for a device, on its stream)."""
        self.batch_p2p([Send(t, dst)])

    def recv(self, t: Tensor, src: int) -> Tensor:
        """Receive into ``t`` from ``src``. Returns ``t``."""
        self.batch_p2p([Recv(t, src)])
        return t

    def batch_p2p(self, messages: Sequence[Send | Recv]) -> None:
        """Messages started together. Between two ranks they match in the order given."""
        for i, message in enumerate(messages):
            self._flat(message.tensor, f"messages[{i}].tensor")
            if self._global(message.peer, f"messages[{i}].peer") == self.ranks[self.rank]:
                raise CommError(
                    f"messages[{i}]: rank {self.ranks[self.rank]} cannot send to or receive from itself"
                )
        if not messages:
            return
        own = self.ranks[self.rank]
        posted = [(m, self.ranks[m.peer], tensors.dense(m.tensor)) for m in messages]
        sends = [(flat, peer) for m, peer, flat in posted if isinstance(m, Send)]
        recvs = [(flat, peer) for m, peer, flat in posted if isinstance(m, Recv)]
        said_out = [
            (f"{tensors.show(m.tensor)} from {own} to {p}", p) for m, p, _ in posted if isinstance(m, Send)
        ]
        said_in = [
            (f"{tensors.show(m.tensor)} from {p} to {own}", p) for m, p, _ in posted if isinstance(m, Recv)
        ]

        def move() -> None:
            outgoing, incoming = (
                [(tensors.as_bytes(flat), peer) for flat, peer in side if flat.numel()]
                for side in (sends, recvs)
            )
            if outgoing or incoming:
                self._wire.exchange(outgoing, incoming)

        self._run_messages(
            f"batch_p2p({'; '.join(text for text, _ in (*said_out, *said_in))})",
            sorted({peer for _, peer, _ in posted}),
            lambda: precheck.agree_pairwise(self._host, own, said_out, said_in),
            move,
        )
        for m, _, flat in posted:
            if isinstance(m, Recv):
                tensors.write_back(m.tensor, flat)

    # -- the rest
    def barrier(self) -> None:
        """Return when every rank is here and this rank's device has finished its work."""
        self.device.synchronize()
        token = torch.zeros(1, dtype=torch.uint8, device="cpu")
        self._run("barrier()", lambda: self._control.all_gather(token.new_empty(self.world_size), token))

    def all_gather_object(self, value: Any) -> list[Any]:
        """Every rank's ``value``, by rank. JSON (str, int, float, bool, None, list, dict), never pickles."""
        data = torch.frombuffer(bytearray(objects.encode(value)), dtype=torch.uint8)
        sizes = torch.empty(self.world_size, dtype=torch.int64, device="cpu")
        got: list[Tensor] = []

        def move() -> None:
            self._control.all_gather(sizes, torch.tensor([data.numel()], device="cpu"))
            widest = int(sizes.max())
            every = torch.empty(self.world_size * widest, dtype=torch.uint8, device="cpu")
            self._control.all_gather(every, torch.nn.functional.pad(data, (0, widest - data.numel())))
            got.extend(every.chunk(self.world_size))

        self._run("all_gather_object()", move)
        return [objects.decode(part[:n].numpy().tobytes()) for part, n in zip(got, sizes.tolist())]

    def broadcast_object(self, value: Any = None, src: int = 0) -> Any:
        """``src``'s ``value`` on every rank; what others give is ignored. JSON as well."""
        root = self._global(src, "src")
        mine = bytearray(objects.encode(value) if self.rank == src else b"")
        size = torch.tensor([len(mine)], device="cpu")
        got: list[Tensor] = []

        def move() -> None:
            self._control.broadcast(size, root)
            data = (
                torch.frombuffer(mine, dtype=torch.uint8)
                if mine
                else torch.empty(int(size), dtype=torch.uint8, device="cpu")
            )
            self._control.broadcast(data, root)
            got.append(data)

        self._run(f"broadcast_object(src={root})", move)
        return objects.decode(got[0].numpy().tobytes())

    def subgroup(self, ranks: Sequence[int] | None = None, *, by: str | None = None) -> Communicator | None:
        """A communicator of some of the ranks, in ascending order.

        They are ``ranks``, or those that share this rank's ``by`` ("host" or "vendor"). Every rank of the job
        calls it with the same arguments; the result is None on one that is not in ``ranks``.
        """
        if (ranks is None) == (by is None):
            raise CommError("subgroup takes either ranks or by='host' or 'vendor'")
        if self.world_size != len(self.job.facts):
            raise CommError("make subgroups from the communicator that hetero.comm.init returned")
        if ranks is not None:
            chosen = tuple(sorted(ranks))
            if not chosen or len(set(chosen)) != len(chosen) or not set(chosen) <= set(self.ranks):
                raise CommError(f"subgroup({list(chosen)}): want distinct ranks of 0..{self.world_size - 1}")
            parts = [chosen]
        elif by in ("host", "vendor"):
            owners: dict[str, list[int]] = {}
            for rank, facts in enumerate(self.job.facts):
                owners.setdefault(facts[by], []).append(rank)
            parts = [tuple(members) for members in owners.values()]
        else:
            raise CommError(f"subgroup(by={by!r}): by is 'host' or 'vendor'")
        made: list[Communicator] = []

        def move() -> None:
            limit = timedelta(seconds=self.job.timeout)
            for members in parts:
                group = control = None
                if self.group is not None:
                    group = dist.new_group(members, timeout=limit, backend=self.job.backend)
                    control = dist.new_group(members, timeout=limit, backend="gloo")
                if self.rank in members:
                    made.append(Communicator(self.job, members, members.index(self.rank), group, control))

        self._run(f"subgroup({list(map(list, parts))})", move)
        return made[0] if made else None

    def describe(self) -> dict[str, Any]:
        """What :meth:`explain` says, as data."""
        library = self.job.library
        how = (
            dict.fromkeys(COLLECTIVES, "a copy: one rank")
            if self._alone
            else library.explain(self.world_size)
        )
        return {
            "ranks": list(self.ranks),
            "rank": self.ranks[self.rank],
            "device": str(self.device),
            "library": library.name,
            "backend": library.backend,
            "note": library.note,
            "timeout_seconds": self.job.timeout,
            "check": self.job.check,
            "collectives": how,
            "facts": [dict(self.job.facts[rank]) for rank in self.ranks],
        }

    def explain(self) -> str:
        """Which library does each collective, what is emulated and how, and who the ranks are."""
        d = self.describe()
        width = max(map(len, d["collectives"]))
        checked = (
            "calls are compared across ranks first" if d["check"] else "calls are not compared across ranks"
        )
        return "\n".join(
            [
                f"{self.world_size} rank(s) {d['ranks']} on {d['device']}, this is rank {d['rank']}",
                f"{d['library']} (torch.distributed {d['backend']!r}), timeout {d['timeout_seconds']:g} s",
                checked,
                *([d["note"]] if d["note"] else []),
                *(f"  {name.ljust(width)}  {how}" for name, how in d["collectives"].items()),
                table(d["facts"]),
            ]
        )

    def __enter__(self) -> Communicator:
        return self

    def __repr__(self) -> str:
        return (
            f"<Communicator rank {self.rank} of {self.world_size}, {self.job.library.name} on {self.device}>"
        )
