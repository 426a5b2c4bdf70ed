"""Comparing a call across ranks before any data moves.

Why: on gloo a wrong size does not fail. An ``all_reduce`` of 3 against 5 elements aborts the process from a
library thread, and a ``broadcast`` of 5 into 3 returns with wrong values and no error (torch 2.13). So ranks
first exchange a fixed-size description of the call, over gloo, and go on only if all are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
import torch.distributed as dist

from hetero.comm.errors import CollectiveMismatch
from hetero.comm.wire import GroupWire

#: Bytes that describe a call: a digest of the whole text, then as much of the text as fits.
_WIDTH, _DIGEST = 256, 16


def agree(wire: GroupWire, ranks: Sequence[int], call: str) -> None:
    """Return once every rank of the group has described the same ``call``.

    Raises:
        CollectiveMismatch: they differ; every rank raises it.
    """
    own = _pack(call)
    every = torch.empty(len(ranks) * _WIDTH, dtype=torch.uint8, device="cpu")
    wire.all_gather(every, torch.frombuffer(own, dtype=torch.uint8))
    got = every.numpy().tobytes()
    if got != bytes(own) * len(ranks):
        parts = (got[i * _WIDTH : (i + 1) * _WIDTH] for i in range(len(ranks)))
        raise CollectiveMismatch({rank: _text(part) for rank, part in zip(ranks, parts)})


def agree_splits(
    wire: GroupWire, ranks: Sequence[int], call: str, out_splits: list[int], in_splits: list[int]
) -> None:
    """Check that what every rank sends to another is what that one expects.

    Raises:
        CollectiveMismatch: it is not; every rank raises it.
    """
    size = len(ranks)
    every = torch.empty(size * 2 * size, dtype=torch.int64, device="cpu")
    wire.all_gather(every, torch.tensor([*in_splits, *out_splits], dtype=torch.int64, device="cpu"))
    table = every.view(size, 2, size)
    if not torch.equal(table[:, 0], table[:, 1].T):
        sides = zip(ranks, table.tolist())
        raise CollectiveMismatch({r: f"{call} sends {sent}, expects {wanted}" for r, (sent, wanted) in sides})


def agree_pairwise(
    wire: GroupWire, own_rank: int, sends: Sequence[tuple[str, int]], recvs: Sequence[tuple[str, int]]
) -> None:
    """Point-to-point: each message's (description, peer) against the peer's, in the order posted.

    Both sides of a message learn the other's description, so both raise.

    Raises:
        CollectiveMismatch: sender and receiver describe the message differently.
    """
    mine = [(text, peer) for text, peer in (*sends, *recvs)]
    theirs = [torch.empty(_WIDTH, dtype=torch.uint8, device="cpu") for _ in mine]
    # The tag keeps a pair's two directions apart: what a rank sends is answered by what its peer receives.
    outgoing, incoming = 1, 2
    tags = [outgoing] * len(sends) + [incoming] * len(recvs)
    pending = []
    for (text, peer), landing, tag in zip(mine, theirs, tags):
        header = torch.frombuffer(_pack(text), dtype=torch.uint8)
        pending.append(dist.isend(header, peer, group=wire.control, tag=tag))
        pending.append(dist.irecv(landing, peer, group=wire.control, tag=outgoing + incoming - tag))
    for work in pending:
        if work is not None:  # None: this rank is not of the group, which its own group never says
            work.wait()
    for (text, peer), landing in zip(mine, theirs):
        got = landing.numpy().tobytes()
        if got != bytes(_pack(text)):
            raise CollectiveMismatch({own_rank: text, peer: _text(got)})


def _pack(call: str) -> bytearray:
    text = call.encode()
    digest = hashlib.blake2b(text, digest_size=_DIGEST).digest()
    return bytearray((digest + text[: _WIDTH - _DIGEST]).ljust(_WIDTH, b"\0"))


def _text(packed: bytes) -> str:
    return packed[_DIGEST:].rstrip(b"\0").decode(errors="replace")
