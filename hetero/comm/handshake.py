"""Facts that ranks compare before the first collective, so that a mismatch is a table and not a hang."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

import hetero
from hetero.comm.errors import HandshakeError

if TYPE_CHECKING:
    from hetero.accelerator import Device

#: Facts that must be the same on every rank. The others are shown for orientation.
MUST_AGREE = ("world", "hetero", "torch", "library", "dtypes", "check")
_SHOWN = ("host", "pid", "vendor", "arch")
_DTYPES = ("bf16", "fp16", "fp64", "fp8_formats")


def facts(device: Device, library: str, world_size: int, check: bool) -> dict[str, str]:
    """This rank's facts, each one a short text.

    Versions are compared by major and minor; ``dtypes`` are those that give right results, emulated or not.
    """
    caps = dict(device.caps.items())
    return {
        "host": socket.gethostname(),
        "pid": str(os.getpid()),
        "vendor": device.vendor,
        "arch": device.arch,
        "world": str(world_size),
        "hetero": _minor(hetero.__version__),
        "torch": _minor(torch.__version__),
        "library": library,
        "dtypes": "+".join(name for name in _DTYPES if caps[name].usable) or "fp32",
        "check": "on" if check else "off",
    }


def compare(ranks: Sequence[dict[str, str]]) -> None:
    """Check the facts of all ranks, given in rank order.

    Raises:
        HandshakeError: with a rank-by-fact table, the same on every rank.
    """
    differ = [name for name in MUST_AGREE if len({rank.get(name) for rank in ranks}) > 1]
    if differ:
        raise HandshakeError(differ, table(ranks, differ))


def table(ranks: Sequence[dict[str, str]], marked: Sequence[str] = ()) -> str:
    """Ranks as rows, facts as columns; ``marked`` facts carry a star and, where rare, their values too."""
    names = (*_SHOWN, *MUST_AGREE)
    header = ["rank", *(f"*{name}" if name in marked else name for name in names)]
    rows = [[str(i), *(rank.get(name, "?") for name in names)] for i, rank in enumerate(ranks)]
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [header, *rows]
    )
    return "\n".join(f"  {line}" for line in lines)


def dump(own: dict[str, str], address: tuple[str, int], job: str) -> str:
    return json.dumps({"facts": own, "address": address, "job": job})


def load(text: str) -> tuple[dict[str, str], tuple[str, int], str]:
    message: dict[str, Any] = json.loads(text)
    host, port = message["address"]
    return message["facts"], (host, port), message["job"]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
