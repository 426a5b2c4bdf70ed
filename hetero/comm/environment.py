"""What a launcher says about this process: torchrun's variables, checked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from hetero.comm.errors import RendezvousError
from hetero.errors import CommError

#: Seconds a rank waits for the others, at start and in every collective.
DEFAULT_TIMEOUT = 300.0

_NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Place:
    """This process's place in the job.

    Args:
        rank, world_size, local_rank: as torchrun sets them.
        address, port: where the store is.
        agent_store: the launcher itself serves the store (torchrun does), so rank 0 does not.
        attempt: how often the launcher has restarted the job; keys of an earlier attempt are not ours.
    """

    rank: int
    world_size: int
    local_rank: int
    address: str
    port: int
    agent_store: bool = False
    attempt: int = 0


def read(environ: Mapping[str, str] = os.environ) -> Place | None:
    """The place that ``environ`` gives, or None where no launcher set any of its variables.

    Raises:
        RendezvousError: some variables are missing or make no sense.
    """
    missing = [name for name in _NAMES if not environ.get(name)]
    if len(missing) == len(_NAMES):
        return None
    if missing:
        raise RendezvousError(
            f"the environment sets {', '.join(n for n in _NAMES if n not in missing)} but not "
            f"{', '.join(missing)}: start with torchrun, or set all of {', '.join(_NAMES)}"
        )
    rank, size, port = (_integer(environ, n) for n in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    if not 0 <= rank < size:
        raise RendezvousError(f"RANK={rank} is not in 0..{size - 1}, as WORLD_SIZE={size} asks")
    if not 0 < port < 65536:
        raise RendezvousError(f"MASTER_PORT={port} is not a port (1 to 65535)")
    return Place(
        rank=rank,
        world_size=size,
        local_rank=_integer(environ, "LOCAL_RANK") if environ.get("LOCAL_RANK") else rank,
        address=environ["MASTER_ADDR"],
        port=port,
        agent_store=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=_integer(environ, "TORCHELASTIC_RESTART_COUNT")
        if "TORCHELASTIC_RESTART_COUNT" in environ
        else 0,
    )


def timeout_seconds(asked: float | None, environ: Mapping[str, str] = os.environ) -> float:
    """The timeout in seconds: ``asked``, else ``HETERO_COMM_TIMEOUT``, else :data:`DEFAULT_TIMEOUT`."""
    given = asked if asked is not None else environ.get("HETERO_COMM_TIMEOUT") or DEFAULT_TIMEOUT
    source = "timeout" if asked is not None else "HETERO_COMM_TIMEOUT"
    try:
        seconds = float(given)
    except ValueError:
        raise CommError(f"{source}={given!r} is not a number of seconds") from None
    if not (math.isfinite(seconds) and seconds > 0):
        raise CommError(f"{source}={given} must be a positive number of seconds")
    return seconds


def _integer(environ: Mapping[str, str], name: str) -> int:
    try:
        return int(environ[name])
    except ValueError:
        raise RendezvousError(f"{name}={environ[name]!r} is not an integer") from None
