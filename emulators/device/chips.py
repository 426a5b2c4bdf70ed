"""Which chips the emulated devices may say that they are: what vendors' packages report of them, nothing more.

No peak and no bandwidth: an emulated chip has the speed of the CPU. NVIDIA's numbers are those of its programming
guide (table of compute capabilities) and of the chips' data sheets; MetaX's and Biren's come from their public
packages and from reports of people who ran on them. What no source tells is None here.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1 << 10


@dataclass(frozen=True)
class Chip:
    """What ``get_device_properties`` says.

    Args:
        name: as the vendor's driver spells it.
        capability: major, minor.
        processors: multiprocessors.
        warp: lanes.
        shared: bytes of shared memory of a block, by default and at most.
        shared_sm: bytes of shared memory of a multiprocessor.
        threads: of a multiprocessor.
        cache: bytes of the level-2 cache.
    """

    name: str
    capability: tuple[int, int]
    processors: int | None = None
    warp: int | None = 32
    shared: tuple[int, int] | None = None
    shared_sm: int | None = None
    threads: int | None = 2048
    cache: int | None = None


CUDA = {
    "h100": Chip("NVIDIA H100 80GB HBM3", (9, 0), 132, 32, (48 * KIB, 227 * KIB), 228 * KIB, 2048, 50 << 20),
    "h200": Chip("NVIDIA H200", (9, 0), 132, 32, (48 * KIB, 227 * KIB), 228 * KIB, 2048, 50 << 20),
    "a100": Chip("NVIDIA A100-SXM4-80GB", (8, 0), 108, 32, (48 * KIB, 163 * KIB), 164 * KIB, 2048, 40 << 20),
    "4090": Chip("NVIDIA GeForce RTX 4090", (8, 9), 128, 32, (48 * KIB, 99 * KIB), 100 * KIB, 1536, 72 << 20),
}
METAX = {
    "c500": Chip("MetaX C500", (8, 0), 104, 64, (64 * KIB, 64 * KIB), 64 * KIB, 2048),
    "c550": Chip("MetaX C550", (8, 0), 104, 64, (64 * KIB, 64 * KIB), 64 * KIB, 2048),
}
#: No public source tells a name of a BR2xx; its capability major is 9, as SUDA's properties have it.
BR2XX = {"br2xx": Chip("Biren BR2xx", (9, 0), warp=None, threads=None)}
#: Nor what a BR1xx answers for its capability.
BR1XX = {
    "br106b": Chip("Biren106B", (0, 0), warp=None, threads=None),
    "br106m": Chip("Biren106M", (0, 0), warp=None, threads=None),
    "br166c": Chip("Biren166C", (0, 0), warp=None, threads=None),
    "br166m": Chip("Biren166M", (0, 0), warp=None, threads=None),
}
