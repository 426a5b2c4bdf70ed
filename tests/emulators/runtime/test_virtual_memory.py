"""Addresses and memory apart, as torch_npu's expandable segments use them."""

from __future__ import annotations

import ctypes

from tests.emulators.runtime.cann import HANDLE, OUT_OF_MEMORY, PARAM, cann, in_process, refused

SEGMENT = 2 << 20


def _reserve(size: int) -> int:
    out = ctypes.c_void_p()
    count = ctypes.c_size_t(size)
    cann.aclrtReserveMemAddress(ctypes.byref(out), count, ctypes.c_size_t(0), None, ctypes.c_uint64(1))
    return out.value or 0


def _physical(size: int = SEGMENT, device: int = 0) -> int:
    # handleType, allocationType, memAttr, location {id, type}, reserve
    properties = (ctypes.c_uint32 * 8)(0, 0, 4, device, 1)
    out = ctypes.c_void_p()
    cann.aclrtMallocPhysical(ctypes.byref(out), ctypes.c_size_t(size), properties, ctypes.c_uint64(0))
    return out.value or 0


def _map(at: int, handle: int, size: int = SEGMENT) -> None:
    offset, flags = ctypes.c_size_t(0), ctypes.c_uint64(0)
    cann.aclrtMapMem(at, ctypes.c_size_t(size), offset, ctypes.c_void_p(handle), flags)


@in_process(memory="16MiB")
def test_segments_grow_shrink_and_keep_their_bytes() -> None:
    cann.device()
    base = _reserve(10 * SEGMENT)
    refused(PARAM, "was freed", cann.fill, base, 1, 8)  # nothing there yet
    handles = [_physical() for _ in range(3)]
    for i, handle in enumerate(handles):
        _map(base + i * SEGMENT, handle)
    cann.fill(base, 7, 3 * SEGMENT)  # across segments
    refused(PARAM, "runs 1 bytes past", cann.fill, base, 7, 3 * SEGMENT + 1)
    refused(PARAM, "mapped there already", _map, base, handles[0])
    refused(PARAM, "is not the start of an allocation", cann.aclrtFree, base)
    refused(PARAM, "still mapped", cann.aclrtReleaseMemAddress, base)

    cann.aclrtUnmapMem(base + SEGMENT)
    refused(PARAM, "past the end", cann.fill, base, 7, 2 * SEGMENT)
    _map(base + 5 * SEGMENT, handles[1])
    assert cann.read(base + 5 * SEGMENT + 9) == b"\7"  # the bytes went with the memory

    free = ctypes.c_size_t()
    cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(ctypes.c_size_t()))
    assert free.value == (16 << 20) - 3 * SEGMENT
    cann.aclrtFreePhysical(ctypes.c_void_p(handles[1]))  # mapped: lives until it is not
    refused(HANDLE, "not a live handle", cann.aclrtFreePhysical, ctypes.c_void_p(handles[1]))
    assert cann.read(base + 5 * SEGMENT + 9) == b"\7"
    cann.aclrtUnmapMem(base + 5 * SEGMENT)
    cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(ctypes.c_size_t()))
    assert free.value == (16 << 20) - 2 * SEGMENT
    for i in (0, 2):
        cann.aclrtUnmapMem(base + i * SEGMENT)
        cann.aclrtFreePhysical(ctypes.c_void_p(handles[i]))
    cann.aclrtReleaseMemAddress(base)
    refused(PARAM, "not the start of reserved", cann.aclrtReleaseMemAddress, base)


@in_process(memory="16MiB", faults="oom@11")
def test_physical_memory_ends_at_the_limit() -> None:
    cann.device()
    handles = [_physical() for _ in range(8)]
    refused(OUT_OF_MEMORY, "0 of 16777216 are free", _physical)
    _physical(device=1)
    cann.aclrtFreePhysical(ctypes.c_void_p(handles[0]))
    refused(OUT_OF_MEMORY, "Failed to allocate", _physical)  # injected
    _physical()
    refused(PARAM, "not a multiple of 2 MiB", _physical, 4096)
