"""Collectives: backend ``bccl``."""

from hetero.emulators.device import supa as _emulated

ProcessGroupBCCL = _emulated.serve("bccl", "BCCL")


def is_bccl_available() -> bool:
    return True
