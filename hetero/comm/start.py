"""Making the communicator of a job."""

from __future__ import annotations

import secrets
from datetime import timedelta

import torch
import torch.distributed as dist

import hetero
from hetero.accelerator import Device
from hetero.comm import environment, handshake, rendezvous
from hetero.comm.communicator import Communicator
from hetero.comm.core import Job
from hetero.comm.environment import Place
from hetero.comm.errors import CommError, RendezvousError
from hetero.comm.library import HOST, Library
from hetero.comm.peers import Peers, own_address


def init(
    device: str | torch.device | Device | None = None, timeout: float | None = None, *, check: bool = True
) -> Communicator:
    """The communicator of all ranks of this job, from torchrun's environment (RANK, WORLD_SIZE, LOCAL_RANK,
    MASTER_ADDR, MASTER_PORT). With none of them set: one rank alone, with no socket and no process group.

    It also makes torch.distributed's default process group, so DDP and FSDP work with ``comm.group``.

    Args:
        device: as for :func:`hetero.device`; without an index, LOCAL_RANK is the index.
        timeout: seconds to wait for other ranks, here and in every call; default HETERO_COMM_TIMEOUT, else
        300. check: compare every call across ranks before data moves.

    Raises:
        RendezvousError: the environment makes no sense, or ranks do not find each other.
        HandshakeError: ranks differ in versions, library, dtypes or settings; with a rank-by-fact table.
        CommError: the vendor has no collectives, or a process group exists already.
    """
    place = environment.read()
    seconds = environment.timeout_seconds(timeout)
    where = _device(device, place)
    spec = where.backend.comm()
    if place is None:
        library = HOST if spec is None else Library.of(spec)
        own = handshake.facts(where, library.name, 1, check)
        return Communicator(Job(where, library, "", (own,), None, seconds, check, 0), [0], 0)
    if spec is None:
        raise CommError(f"backend {where.vendor!r} names no collective library: it runs as one rank only")
    if not dist.is_available():
        raise CommError("this torch was built without torch.distributed")
    if dist.is_initialized():
        raise CommError(
            "torch.distributed already has a process group: call hetero.comm.init instead of "
            "init_process_group, and close() a communicator before making another"
        )
    library = Library.of(spec)
    return _join(place, where, library, seconds, check)


def _join(place: Place, device: Device, library: Library, seconds: float, check: bool) -> Communicator:
    store = rendezvous.join(place, seconds)
    serves = place.rank == 0 and not place.agent_store
    peers = Peers(place.rank, place.address if serves else own_address(place.address, place.port))
    try:
        own = handshake.facts(device, library.name, place.world_size, check)
        message = handshake.dump(own, peers.address, secrets.token_hex(8))
        gathered = [handshake.load(text) for text in rendezvous.exchange(store, place, message, seconds)]
        facts = [fact for fact, _, _ in gathered]
        handshake.compare(facts)
        addresses = {rank: address for rank, (_, address, _) in enumerate(gathered) if rank != place.rank}
        peers.start(job=gathered[0][2], others=addresses)
        backend = "gloo" if library.on_host else f"cpu:gloo,{device.type}:{library.backend}"
        job = Job(device, library, backend, tuple(facts), peers, seconds, check, place.local_rank)
        return _connect(job, place, store)
    except BaseException:
        peers.close()
        rendezvous.forget(place)
        raise


def _connect(job: Job, place: Place, store: dist.Store) -> Communicator:
    limit = timedelta(seconds=job.timeout)
    try:
        dist.init_process_group(
            job.backend,
            store=dist.PrefixStore("c10d", store),
            rank=place.rank,
            world_size=place.world_size,
            timeout=limit,
        )
        control = dist.new_group(backend="gloo", timeout=limit)
    except RuntimeError as error:
        if dist.is_initialized():
            dist.destroy_process_group()
        raise RendezvousError(f"ranks met, but {job.library.name} could not connect them: {error}") from error
    comm = Communicator(job, range(place.world_size), place.rank, dist.group.WORLD, control)
    try:
        comm.barrier()
    except CommError:
        comm.close()
        raise
    return comm


def _device(spec: str | torch.device | Device | None, place: Place | None) -> Device:
    found = hetero.device(spec)
    if isinstance(spec, str):
        indexed = ":" in spec
    else:
        indexed = spec is not None and spec.index is not None
    if found.type == "cpu":
        return found
    if place is not None and not indexed:
        found = hetero.device(f"{found.vendor}:{place.local_rank}")
    found.module.set_device(found.index)
    return found
