"""What every call of a communicator goes through: the check across ranks, the record, the diagnosis."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.distributed as dist

from hetero.comm import precheck
from hetero.comm.diagnosis import Call, announce, diagnose
from hetero.comm.errors import CollectiveTimeout, CommError, PeerLost
from hetero.comm.library import HOST, Library
from hetero.comm.peers import Peers
from hetero.comm.wire import GroupWire, LoneWire, Wire

if TYPE_CHECKING:
    from hetero.accelerator import Device

#: What a library's errors say when a connection, and not the caller, is at fault.
_TRANSPORT = (
    "gloo",
    "nccl",
    "hccl",
    "remote error",
    "connection",
    "pair closure",
    "broken pipe",
    "timed out",
    "timeout",
)


@dataclass(frozen=True)
class Job:
    """What all communicators of a process share.

    Args:
        backend: what torch.distributed makes groups of (``"cpu:gloo,npu:hccl"``).
        facts: the handshake's, by global rank.
        peers: None where this process is the whole job.
        timeout: seconds.
        check: whether calls are compared across ranks.
    """

    device: Device
    library: Library
    backend: str
    facts: tuple[Mapping[str, str], ...]
    peers: Peers | None
    timeout: float
    check: bool
    local_rank: int


class Core:
    """Membership, the way a call is made, and the end. :class:`Communicator` adds the collectives."""

    def __init__(
        self,
        job: Job,
        ranks: Sequence[int],
        rank: int,
        group: dist.ProcessGroup | None = None,
        control: dist.ProcessGroup | None = None,
    ) -> None:
        self.job = job
        #: Global ranks of the members, in group order.
        self.ranks = tuple(ranks)
        #: This process's rank in the group.
        self.rank = rank
        #: The process group, for DDP and FSDP (see :meth:`guard`); None for a process without a launcher.
        self.group = group
        self._control_group = control
        self._alone = len(self.ranks) == 1 or group is None or control is None
        self._wire: Wire = LoneWire(job.library)
        self._control: Wire = LoneWire()
        if not self._alone:
            assert group is not None and control is not None
            self._wire = GroupWire(group, control, job.library)
            self._host = GroupWire(control, control, HOST)
            self._control = self._host
        self._key = f"{getattr(group, 'group_name', '')}{list(self.ranks)}"
        self._sequence = 0
        self._messages = 0
        self._closed = False

    @property
    def world_size(self) -> int:
        """Number of ranks in the group."""
        return len(self.ranks)

    @property
    def local_rank(self) -> int:
        """This process's rank on its host."""
        return self.job.local_rank

    @property
    def device(self) -> Device:
        """Where tensors have to be."""
        return self.job.device

    # -- making a call
    def _run(self, text: str, move: Callable[[], None], check: Callable[[], None] | None = None) -> None:
        """One collective: compare ``text`` across ranks, then ``check()``, then ``move()``."""
        self._ready()
        if self._alone:
            return move()
        self._sequence += 1
        with self._watch(Call(self._key, self._sequence, text, self.ranks)):
            if self.job.check:
                precheck.agree(self._host, self.ranks, text)
                if check is not None:
                    check()
            move()

    def _run_messages(
        self, text: str, others: Sequence[int], check: Callable[[], None], move: Callable[[], None]
    ) -> None:
        """Point-to-point with the global ranks ``others``: ``check()``, then ``move()``."""
        self._ready()
        self._messages += 1
        with self._watch(Call(f"{self._key} messages", self._messages, text, tuple(others), paired=True)):
            if self.job.check:
                check()
            move()

    def _ready(self) -> None:
        if self._closed:
            raise CommError("this communicator is closed")
        if self.job.peers is not None and self.job.peers.verdict is not None:
            raise self.job.peers.verdict

    @contextlib.contextmanager
    def _watch(self, call: Call, transport_only: bool = False) -> Iterator[None]:
        peers = self.job.peers
        assert peers is not None
        peers.progress.enter(call.key, call.sequence, call.text)
        start = time.monotonic()
        try:
            yield
        except CommError:
            peers.progress.leave(call.key, call.sequence, call.text)
            raise
        except RuntimeError as error:
            if transport_only and not any(sign in str(error).lower() for sign in _TRANSPORT):
                raise
            raise diagnose(error, call, peers, time.monotonic() - start, self.job.timeout) from error
        peers.progress.leave(call.key, call.sequence, call.text)

    @contextlib.contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Code that uses :attr:`group` by itself, such as a DDP backward: its broken connections and timeouts
        become the same typed errors, naming ``what``. Other exceptions pass unchanged.

        Raises:
            PeerLost, CollectiveTimeout: as for a collective.
        """
        self._ready()
        if self._alone:
            yield
            return
        self._messages += 1
        with self._watch(Call(f"{self._key} guard", self._messages, what, self.ranks, paired=True), True):
            yield

    # -- the end
    def close(self) -> None:
        """Leave: destroys the process groups. Calls after it raise CommError; closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        peers = self.job.peers
        if peers is None:
            return
        if self.group is dist.group.WORLD:
            peers.close()
            dist.destroy_process_group()
        elif (
            dist.is_initialized()
        ):  # else the job's communicator was closed, and took this one's groups along
            for group in (self.group, self._control_group):
                if group is not None:
                    dist.destroy_process_group(group)
        self.group = self._control_group = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Closes. On an exception the other ranks are told it first, so that they name the cause."""
        peers = self.job.peers
        told = isinstance(error, (PeerLost, CollectiveTimeout)) or (
            peers is not None and peers.verdict is not None
        )
        if isinstance(error, (Exception, KeyboardInterrupt)) and peers is not None and not told:
            said = "".join(traceback.format_exception(error))[-4000:].rstrip()
            announce(peers, PeerLost([peers.rank], "its own code", f"it stopped with\n{said}\n"))
        self.close()
