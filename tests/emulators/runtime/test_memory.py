"""Device and host memory: what is allowed, what is refused and how."""

from __future__ import annotations

import ctypes

from tests.emulators.runtime.cann import (
    D2D,
    D2H,
    H2D,
    H2H,
    MEMORY_FREE,
    NO_CONTEXT,
    OUT_OF_MEMORY,
    PARAM,
    cann,
    in_process,
    refused,
)


def _host(text: bytes = b"") -> tuple[ctypes.Array[ctypes.c_char], int]:
    buffer = ctypes.create_string_buffer(text, 64)
    return buffer, ctypes.addressof(buffer)


@in_process()
def test_bytes_go_to_the_device_and_back() -> None:
    cann.device()
    a, b = cann.malloc(), cann.malloc()
    _, source = _host(b"hello")
    cann.copy(a, source, 5, H2D)
    cann.copy(b + 8, a, 5, D2D)
    assert cann.read(b + 8, 5) == b"hello"
    cann.fill(b, ord("x"), 8)
    assert cann.read(b, 10) == b"xxxxxxxxhe"


@in_process()
def test_the_kind_of_a_copy_has_to_be_true() -> None:
    cann.device()
    a = cann.malloc()
    _, host = _host()
    refused(PARAM, "the destination is host memory", cann.copy, host, a, 8, D2D)
    refused(PARAM, "the source is host memory", cann.copy, a, host, 8, D2D)
    refused(PARAM, "the source is device memory", cann.copy, host, a, 8, H2H)
    refused(PARAM, "the destination is device memory", cann.copy, a, a, 8, D2H)
    refused(PARAM, "the destination is host memory", cann.fill, host, 0, 8)


@in_process()
def test_an_access_past_the_end_is_refused() -> None:
    cann.device()
    a, b = cann.malloc(4096), cann.malloc(4096)
    refused(PARAM, "runs 8 bytes past the end of its allocation", cann.copy, a + 4088, b, 16, D2D)
    room, count = ctypes.c_size_t(4), ctypes.c_size_t(8)
    refused(PARAM, "8 bytes into room for 4", cann.aclrtMemcpy, a, room, b, count, D2D)


@in_process()
def test_memory_is_dead_after_free_and_its_address_is_not_soon_used_again() -> None:
    cann.device()
    a = cann.malloc()
    cann.aclrtFree(a)
    assert cann.malloc() != a
    refused(PARAM, "was freed", cann.fill, a, 0, 8)
    refused(PARAM, "was freed", cann.aclrtFree, a)
    b = cann.malloc()
    refused(PARAM, "is not the start of an allocation", cann.aclrtFree, b + 64)
    _, host = _host()
    refused(PARAM, "is host memory", cann.aclrtFree, host)


@in_process(code=-11)
def test_the_host_cannot_touch_memory_after_free() -> None:
    cann.device()
    a = cann.malloc()
    ctypes.memset(a, 1, 8)
    cann.aclrtFree(a)
    ctypes.memset(a, 1, 8)


@in_process()
def test_a_thread_needs_a_device() -> None:
    refused(NO_CONTEXT, "no device is set", cann.malloc)
    refused(NO_CONTEXT, "no device is set", cann.stream)
    refused(NO_CONTEXT, "no device is set", cann.event)
    refused(NO_CONTEXT, "no device is set", cann.pinned)


@in_process(memory="16MiB")
def test_memory_ends_at_the_limit_and_comes_back() -> None:
    cann.device()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
    assert (free.value, total.value) == (16 << 20, 16 << 20)
    most = cann.malloc(12 << 20)
    refused(OUT_OF_MEMORY, "4194304 of 16777216 are free", cann.malloc, 5 << 20)
    refused(OUT_OF_MEMORY, "Failed to allocate 18446744073709551615 bytes", cann.malloc, (1 << 64) - 1)
    cann.device(1)  # has its own
    cann.malloc(12 << 20)
    cann.device(0)
    cann.aclrtFree(most)
    cann.malloc(12 << 20)


@in_process()
def test_memory_of_many_sizes_comes_and_goes() -> None:
    cann.device()
    live: list[tuple[int, int, int]] = []
    for step in range(2000):
        if step % 3 == 2:
            at, size, value = live.pop(step * 7919 % len(live))
            assert cann.read(at + size - 1) == bytes([value])
            cann.aclrtFree(at)
        else:
            size = 1 + step * 104729 % 100_000
            at = cann.malloc(size)
            assert all(at + size <= other or at >= other + length for other, length, _ in live)
            cann.fill(at, step % 251, size)
            live.append((at, size, step % 251))


@in_process()
def test_pinned_host_memory_is_known_and_checked() -> None:
    cann.device()
    pinned = cann.pinned(64)
    kinds = {}
    for name, at in {"device": cann.malloc(), "pinned": pinned + 8, "pageable": _host()[1]}.items():
        attributes = (ctypes.c_uint32 * 7)()
        cann.aclrtPointerGetAttributes(at, attributes)
        kinds[name] = attributes[1]
    assert kinds == {"device": 1, "pinned": 0, "pageable": 2}
    refused(PARAM, "not the start", cann.aclrtFreeHost, pinned + 8)
    cann.aclrtFreeHost(pinned)
    refused(PARAM, "not the start", cann.aclrtFreeHost, pinned)


@in_process()
def test_registered_host_memory_is_usable_by_the_device() -> None:
    cann.device()
    buffer, host = _host(b"registered")
    out = ctypes.c_void_p()
    cann.aclrtHostRegister(host, ctypes.c_uint64(64), 0, ctypes.byref(out))
    a = cann.malloc()
    cann.copy(a, out.value or 0, 10, D2D)
    assert cann.read(a, 10) == b"registered"
    refused(
        507910, "registered already", cann.aclrtHostRegister, host, ctypes.c_uint64(64), 0, ctypes.byref(out)
    )
    cann.aclrtHostUnregister(host)
    refused(507911, "not registered", cann.aclrtHostUnregister, host)
    refused(PARAM, "is host memory", cann.copy, a, host, 10, D2D)
    del buffer


@in_process()
def test_another_devices_memory_needs_the_access_enabled() -> None:
    cann.device(1)
    far = cann.malloc()
    cann.fill(far, 7, 8)
    cann.device(0)
    near, stream = cann.malloc(), cann.stream()
    refused(PARAM, "memory of device 1", cann.copy, near, far, 8, D2D, stream)
    refused(PARAM, "memory of device 1, the stream is on device 0", cann.fill, far, 0, 8, stream)
    cann.aclrtDeviceEnablePeerAccess(1, 0)
    cann.copy(near, far, 8, D2D, stream)
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(near) == b"\7"


@in_process(delay=20_000)
def test_memory_freed_under_a_queued_task_is_that_tasks_failure() -> None:
    cann.device()
    a, stream = cann.malloc(), cann.stream()
    cann.fill(a, 1, 8, stream)
    cann.aclrtFree(a)
    refused(507015, "aclrtMemsetAsync: device memory was freed before", cann.aclrtSynchronizeStream, stream)


@in_process(delay=20_000)
def test_pinned_memory_freed_under_a_queued_copy_is_that_copys_failure() -> None:
    cann.device()
    a, host, stream = cann.malloc(), cann.pinned(64), cann.stream()
    cann.copy(host, a, 8, D2H, stream)
    cann.aclrtFreeHost(host)
    refused(507013, "pinned host memory was freed before", cann.aclrtSynchronizeStream, stream)


@in_process(races=1)
def test_freeing_what_a_stream_still_uses_is_a_race() -> None:
    cann.device()
    a, b, stream = cann.malloc(), cann.malloc(), cann.stream()
    cann.fill(a, 1, 8, stream)
    cann.fill(b, 1, 8, stream)
    refused(MEMORY_FREE, "aclrtMemsetAsync on stream 1 writes", cann.aclrtFree, a)
    cann.library.aclrtSynchronizeStream(ctypes.c_void_p(stream))
    cann.aclrtFree(b)
