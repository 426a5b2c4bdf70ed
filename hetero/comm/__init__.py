"""Communication between ranks: one interface over every vendor's collective library.

:func:`init` gives the job's :class:`Communicator`, alone or under torchrun. What goes wrong between ranks is
a typed error that names the rank (:mod:`hetero.comm.errors`). The network is trusted: neither the store nor
the library authenticates or encrypts.
"""

from hetero.comm.communicator import Communicator, Recv, Send
from hetero.comm.errors import (
    CollectiveMismatch,
    CollectiveTimeout,
    CommError,
    HandshakeError,
    PeerLost,
    RendezvousError,
)
from hetero.comm.start import init

__all__ = [
    "CollectiveMismatch",
    "CollectiveTimeout",
    "CommError",
    "Communicator",
    "HandshakeError",
    "PeerLost",
    "Recv",
    "RendezvousError",
    "Send",
    "init",
]
