"""How a process with work on its streams ends, and what a forked one may do."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

from tests.emulators.runtime.cann import (
    HOST_FUNCTION,
    NO_CONTEXT,
    cann,
    environment,
    in_process,
    refused,
    start,
)

_NOTHING = HOST_FUNCTION(lambda _: None)


def _busy() -> int:
    cann.device()
    a, stream = cann.malloc(), cann.stream()
    for _ in range(1000):
        cann.fill(a, 1, 8, stream)
    return stream


@in_process(delay=100_000, seconds=5)
def test_exit_with_queued_work() -> None:
    _busy()


@in_process(faults="stall:1@600", seconds=5)
def test_exit_with_a_stalled_stream() -> None:
    _busy()


@in_process(seconds=5)
def test_exit_with_a_stream_that_waits_for_one_that_never_comes() -> None:
    cann.device()
    one, other, event = cann.stream(), cann.stream(), cann.event()
    cann.aclrtSubscribeReport(ctypes.c_uint64(1), one)  # a thread that does not exist
    cann.aclrtLaunchCallback(_NOTHING, None, 1, one)
    cann.aclrtRecordEvent(event, one)
    cann.aclrtStreamWaitEvent(other, event)


@in_process(delay=100_000, seconds=5, code=3)
def test_os_exit_with_queued_work() -> None:
    _busy()
    os._exit(3)


@in_process(delay=100_000, seconds=5, code=-signal.SIGTERM)
def test_a_signal_with_queued_work() -> None:
    _busy()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)


@in_process(delay=100_000, seconds=10)
def test_a_thread_that_synchronises_does_not_hold_up_the_exit() -> None:
    stream = _busy()
    threading.Thread(
        target=lambda: cann.library.aclrtSynchronizeStream(ctypes.c_void_p(stream)), daemon=True
    ).start()
    time.sleep(0.2)


@in_process(delay=1000, seconds=20)
def test_a_forked_child_is_refused_and_does_no_harm() -> None:
    cann.device()
    a, stream = cann.malloc(), cann.stream()
    cann.fill(a, 5, 8, stream)
    for _ in range(20):  # while the stream's thread is at work, which the child does not have
        cann.fill(a, 5, 8, stream)
        child = os.fork()
        if child == 0:
            refused(NO_CONTEXT, "forked", cann.fill, a, 6, 8, stream)
            refused(NO_CONTEXT, "forked", cann.aclrtSynchronizeStream, stream)
            refused(NO_CONTEXT, "forked", cann.malloc)
            cann.aclrtFree(a)
            sys.exit(0)  # through the handlers that the parent registered
        assert os.waitpid(child, 0)[1] == 0
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(a) == b"\5"


@in_process()
def test_a_child_forked_before_the_device_is_used_may_use_it() -> None:
    cann.library  # noqa: B018  # loaded by both
    child = os.fork()
    cann.device()
    a, stream = cann.malloc(), cann.stream()
    cann.fill(a, 5, 8, stream)
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(a) == b"\5"
    if child:
        assert os.waitpid(child, 0)[1] == 0


def lend() -> None:
    cann.device(1)
    a = cann.malloc(8192)
    cann.fill(a, 9, 8192)
    key = ctypes.create_string_buffer(65)
    cann.aclrtIpcMemGetExportKey(a, ctypes.c_size_t(8192), key, ctypes.c_size_t(65), ctypes.c_uint64(1))
    print(key.value.decode(), flush=True)
    time.sleep(1)  # while it is borrowed
    assert cann.read(a + 100) == b"\3"


def borrow(key: str) -> None:
    cann.device(0)
    out = ctypes.c_void_p()
    cann.aclrtIpcMemImportByKey(ctypes.byref(out), key.encode(), ctypes.c_uint64(0))
    a = out.value or 0
    assert cann.read(a + 8191) == b"\t"
    cann.fill(a + 100, 3, 1)
    refused(107000, "is not the start of an allocation", cann.aclrtFree, a)  # it is not its own
    cann.aclrtIpcMemClose(key.encode())
    refused(107000, "was freed", cann.fill, a, 0, 1)
    refused(107000, "not the key of memory", cann.aclrtIpcMemClose, key.encode())


def test_memory_of_another_process() -> None:
    env = environment({})
    lender = start(lend, env)
    assert lender.stdout
    key = lender.stdout.readline().strip()
    borrower = start(borrow, env, key)
    out, _ = borrower.communicate(timeout=30)
    assert borrower.returncode == 0, out
    assert lender.wait(30) == 0, lender.stdout.read()
    late = start(borrow, env, key)
    assert "the process that lent the memory is gone" in late.communicate(timeout=30)[0]
