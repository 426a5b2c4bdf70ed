"""How ranks find each other: a TCPStore served by rank 0 (or by torchrun's agent), joined within a deadline.

Every failure is found early and named: a host name that does not resolve, a port that is taken and by whom,
an address that is not rank 0's, a rank that never comes. The store has no authentication: with a loopback
MASTER_ADDR it listens on loopback only, otherwise keep its port inside a trusted network.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.torch_version import TorchVersion

from hetero.comm.environment import Place
from hetero.comm.errors import RendezvousError

#: Seconds for what needs no other rank: resolving a name, reaching one's own address.
_PROMPT = 8.0

T = TypeVar("T")

#: Stores that this process has joined, and how often ranks met there. A store stays open after its communicator is
#: closed: rank 0 may serve it, and a later one meets in it again, under keys of its own.
_stores: dict[Place, tuple[dist.Store, int]] = {}


def join(place: Place, seconds: float) -> dist.Store:
    """The job's store, its keys private to this attempt of the job and this communicator.

    Raises:
        RendezvousError: as the module says, after at most ``seconds``.
    """
    store, met = _stores.get(place) or (_open(place, seconds), 0)
    _stores[place] = (store, met + 1)
    return dist.PrefixStore(f"hetero/{place.attempt}/{met}", store)


def forget(place: Place) -> None:
    """Let go of the store of ranks that did not meet: what they left in it must not mislead the next try."""
    _stores.pop(place, None)


def _open(place: Place, seconds: float) -> dist.Store:
    deadline = time.monotonic() + seconds
    _resolve(place, min(seconds, _PROMPT))
    if place.rank == 0 and not place.agent_store:
        listener = _listen(place)
        open_store = _store(place, seconds, listener.detach())
    else:
        _await_listener(place, deadline)
        open_store = _store(place, seconds, None)
    # A service that accepts and never answers would hold TCPStore's constructor for ever.
    unlike = f"what listens at MASTER_ADDR={place.address} MASTER_PORT={place.port} is not the job's store"
    return _within(max(deadline - time.monotonic(), 1.0), open_store, unlike)


def exchange(store: dist.Store, place: Place, value: str, seconds: float) -> list[str]:
    """Publish ``value`` and return every rank's, by rank.

    Raises:
        RendezvousError: a rank did not publish within ``seconds``; ``missing`` names it. All ranks raise.
    """
    deadline = time.monotonic() + seconds
    keys = [f"fact/{rank}" for rank in range(place.world_size)]
    pause = 0.01
    try:
        store.set(keys[place.rank], value)
        while not store.check(keys):
            if store.check(["failed"]):
                missing = [int(rank) for rank in store.get("failed").decode().split(",")]
                raise _never_came(missing, place, seconds)
            if time.monotonic() > deadline:
                missing = [rank for rank, key in enumerate(keys) if not store.check([key])]
                if missing:
                    store.set("failed", ",".join(map(str, missing)))
                    time.sleep(1.0)  # the store lives in rank 0's process: let the others read that
                    raise _never_came(missing, place, seconds)
            time.sleep(pause)
            pause = min(pause * 1.5, 0.2)
        values = [store.get(key).decode() for key in keys]
        _await_readers(store, place)
        return values
    except dist.DistError as error:
        raise RendezvousError(
            f"the store at {place.address}:{place.port} is gone while rank {place.rank} waits for the others:"
            f" rank 0 has failed or given up, see its output ({error})",
            missing=(0,),
        ) from error


def _await_readers(store: dist.Store, place: Place) -> None:
    """Hold the store's owner until all have read, since it may raise next and take the store with it."""
    store.add("read", 1)
    deadline = time.monotonic() + _PROMPT
    while place.rank == 0 and store.add("read", 0) < place.world_size and time.monotonic() < deadline:
        time.sleep(0.01)


def _never_came(missing: list[int], place: Place, seconds: float) -> RendezvousError:
    who = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
    return RendezvousError(
        f"{who} of {place.world_size} never arrived at {place.address}:{place.port} within {seconds:g} s: "
        f"started with other MASTER_ADDR, MASTER_PORT or WORLD_SIZE, or died at start (see its output)",
        missing,
    )


def _resolve(place: Place, seconds: float) -> None:
    def look_up() -> None:
        socket.getaddrinfo(place.address, place.port, type=socket.SOCK_STREAM)

    advice = f"MASTER_ADDR={place.address!r} does not resolve to an address: use rank 0's host name or IP"
    try:
        _within(seconds, look_up, advice)
    except (socket.gaierror, UnicodeError) as error:
        raise RendezvousError(f"{advice} ({error})") from error


def _listen(place: Place) -> socket.socket:
    """A listening socket for the store: on loopback where MASTER_ADDR is, else on every interface."""
    loopback = is_loopback(place.address)
    dual = not loopback and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or place.address == "::1" else socket.AF_INET
    host = (place.address if place.address != "localhost" else "127.0.0.1") if loopback else ""
    try:
        listener = socket.create_server((host, place.port), family=family, backlog=4096, dualstack_ipv6=dual)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise RendezvousError(
                f"MASTER_PORT={place.port} is in use on this machine{holder(place.port)}: "
                "choose another port, or end what holds it"
            ) from error
        raise RendezvousError(f"cannot listen on MASTER_PORT={place.port}: {error}") from error
    try:
        socket.create_connection((place.address, place.port), timeout=_PROMPT).close()
    except OSError as error:
        listener.close()
        raise RendezvousError(
            f"MASTER_ADDR={place.address} does not lead to this machine ({socket.gethostname()}), where "
            f"rank 0 runs and serves port {place.port} ({error}): use this machine's address"
        ) from error
    return listener


def _await_listener(place: Place, deadline: float) -> None:
    """Wait until something listens at the store's address: rank 0 may start later than we do."""
    pause = 0.05
    while True:
        left = deadline - time.monotonic()
        try:
            socket.create_connection((place.address, place.port), timeout=max(min(left, 5.0), 0.1)).close()
            return
        except OSError as error:
            if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
                raise RendezvousError(
                    f"MASTER_ADDR={place.address} cannot be reached from {socket.gethostname()}: {error}",
                    (0,),
                ) from error
            if left <= 0:
                raise RendezvousError(
                    f"rank 0 never arrived: nothing answers at {place.address}:{place.port} ({error}). "
                    "Is rank 0 running, and are MASTER_ADDR and MASTER_PORT the same everywhere?",
                    (0,),
                ) from error
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)


def _store(place: Place, seconds: float, listener: int | None) -> Callable[[], dist.Store]:
    # Up to torch 2.7 the libuv server cannot take over a socket.
    libuv = listener is None or TorchVersion(torch.__version__) >= "2.8"

    def open_store() -> dist.Store:
        return dist.TCPStore(
            place.address,
            place.port,
            is_master=listener is not None,
            timeout=timedelta(seconds=seconds),
            wait_for_workers=False,
            master_listen_fd=listener,
            use_libuv=libuv,
        )

    return open_store


def _within(seconds: float, call: Callable[[], T], message: str) -> T:
    """``call()`` in a thread of its own, for calls that take no timeout."""
    result: list[T] = []
    failure: list[Exception] = []

    def work() -> None:
        try:
            result.append(call())
        except Exception as error:  # noqa: BLE001 - handed to the caller below
            failure.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(seconds)
    if failure:
        raise failure[0]
    if not result:
        raise RendezvousError(f"{message} (no answer in {seconds:.0f} s)")
    return result[0]


def is_loopback(address: str) -> bool:
    """Whether ``address``, a name or an IP, is written as a loopback address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def holder(port: int) -> str:
    """ " by process N (name)" for what listens on ``port``, where /proc shows it, else ""."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:] if Path(table).exists() else ():
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for fd in Path("/proc").glob("[0-9]*/fd/*") if inodes else ():
        try:
            if os.readlink(fd) in inodes:
                pid = fd.parts[2]
                return f" by process {pid} ({Path('/proc', pid, 'comm').read_text().strip()})"
        except OSError:
            continue  # that process ended, or is another user's
    return ""
