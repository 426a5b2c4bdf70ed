"""Streams and events: order, asynchrony, errors, handles."""

from __future__ import annotations

import ctypes
import threading
import time

from tests.emulators.runtime.cann import (
    D2H,
    DONE,
    H2D,
    HOST_FUNCTION,
    NOT_COMPLETE,
    PARAM,
    RUNNING,
    STREAM,
    SYNC_TIMEOUT,
    UNSUPPORTED,
    cann,
    in_process,
    refused,
)


def _call(stream: int, function: object) -> None:
    """Python's ``function`` as a task of ``stream``; kept alive by the list below."""
    made = HOST_FUNCTION(function)
    _kept.append(made)
    cann.aclrtLaunchHostFunc(stream, made, None)


_kept: list[object] = []


@in_process()
def test_a_stream_runs_its_tasks_in_order_and_not_on_the_callers_thread() -> None:
    cann.device()
    stream, seen = cann.stream(), list[object]()
    for i in range(200):
        _call(stream, lambda _, i=i: seen.append(i))
    _call(stream, lambda _: seen.append(threading.get_ident()))
    cann.aclrtSynchronizeStream(stream)
    assert seen[:-1] == list(range(200)) and seen[-1] != threading.get_ident()


@in_process(delay=300_000)
def test_a_missing_synchronisation_gives_the_old_bytes() -> None:
    cann.device()
    a, stream = cann.malloc(), cann.stream()
    host = ctypes.create_string_buffer(b"old", 8)
    cann.fill(a, ord("n"), 8, stream)
    cann.copy(ctypes.addressof(host), a, 3, D2H, stream)
    assert host.value == b"old"  # pageable or not
    cann.aclrtSynchronizeStream(stream)
    assert host.value == b"nnn"


@in_process(delay=200_000)
def test_the_source_of_a_copy_is_read_when_the_stream_comes_to_it() -> None:
    cann.device()
    a, stream, host = cann.malloc(), cann.stream(), cann.pinned(8)
    ctypes.memset(host, 1, 8)
    cann.copy(a, host, 8, H2D, stream)
    ctypes.memset(host, 2, 8)
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(a) == b"\2"


@in_process()
def test_streams_do_not_wait_for_each_other_unless_told() -> None:
    cann.device()
    one, other, event, go = cann.stream(), cann.stream(), cann.event(), threading.Event()
    order: list[str] = []
    _call(one, lambda _: (go.wait(10), order.append("one")))
    _call(other, lambda _: order.append("free"))
    cann.aclrtSynchronizeStream(other)
    cann.aclrtRecordEvent(event, one)
    cann.aclrtStreamWaitEvent(other, event)
    _call(other, lambda _: order.append("ordered"))
    assert cann.number("aclrtQueryEventStatus", event) == RUNNING
    assert cann.number("aclrtStreamQuery", other) == 1
    refused(SYNC_TIMEOUT, "not done after 50 ms", cann.aclrtSynchronizeStreamWithTimeout, other, 50)
    go.set()
    cann.aclrtSynchronizeStream(other)
    assert order == ["free", "one", "ordered"]
    assert cann.number("aclrtQueryEventStatus", event) == DONE and cann.number("aclrtStreamQuery", other) == 0


@in_process()
def test_an_event_is_of_its_last_recording() -> None:
    cann.device()
    stream, event, go = cann.stream(), cann.event(), threading.Event()
    assert cann.number("aclrtQueryEventStatus", event) == DONE  # of none
    cann.aclrtRecordEvent(event, stream)
    cann.aclrtSynchronizeEvent(event)
    _call(stream, lambda _: go.wait(10))
    cann.aclrtRecordEvent(event, stream)
    assert cann.number("aclrtQueryEventStatus", event) == RUNNING
    go.set()
    cann.aclrtSynchronizeEvent(event)
    assert cann.number("aclrtQueryEventStatus", event) == DONE


@in_process(seconds=20)
def test_an_event_may_be_recorded_again_before_it_has_completed() -> None:
    """On a stream that is ahead of the first one: each waits for its own recording, and nobody for ever."""
    cann.device()
    slow, fast, waits = cann.stream(), cann.stream(), cann.stream()
    event, go, seen = cann.event(), threading.Event(), list[str]()
    _call(slow, lambda _: go.wait(10) and None)
    cann.aclrtRecordEvent(event, slow)
    cann.aclrtStreamWaitEvent(waits, event)
    _call(waits, lambda _: seen.append("after the first"))
    cann.aclrtRecordEvent(event, fast)
    cann.aclrtSynchronizeStream(fast)
    cann.aclrtSynchronizeEvent(event)  # the second recording is the last, and has completed
    time.sleep(0.1)
    assert seen == []  # the first has not
    go.set()
    cann.aclrtSynchronizeStream(slow)
    cann.aclrtStreamWaitEvent(fast, event)
    cann.aclrtSynchronizeStream(fast)
    cann.aclrtSynchronizeStream(waits)
    assert seen == ["after the first"]


@in_process()
def test_the_time_between_events_is_that_of_the_stream() -> None:
    cann.device()
    stream, start, end = cann.stream(), cann.event(), cann.event()
    ms = ctypes.c_float()
    refused(107006, "never recorded", cann.aclrtEventElapsedTime, ctypes.byref(ms), start, end)
    cann.aclrtRecordEvent(start, stream)
    _call(stream, lambda _: time.sleep(0.1))
    cann.aclrtRecordEvent(end, stream)
    refused(NOT_COMPLETE, "not complete", cann.aclrtEventElapsedTime, ctypes.byref(ms), start, end)
    cann.aclrtSynchronizeStream(stream)
    cann.aclrtEventElapsedTime(ctypes.byref(ms), start, end)
    assert 99 <= ms.value < 5000
    refused(107007, "before the start", cann.aclrtEventElapsedTime, ctypes.byref(ms), end, start)
    first = cann.number("aclrtEventGetTimestamp", start, kind=ctypes.c_uint64)
    last = cann.number("aclrtEventGetTimestamp", end, kind=ctypes.c_uint64)
    assert abs((last - first) / 1000 - ms.value) < 1


@in_process(faults="op-late:aclrtMemsetAsync@1")
def test_a_failure_stays_until_it_is_told_and_what_follows_is_not_run() -> None:
    cann.device()
    a, b, stream, other, event = cann.malloc(), cann.malloc(), cann.stream(), cann.stream(), cann.event()
    ran: list[str] = []
    cann.fill(a, 1, 8, stream)
    _call(stream, lambda _: ran.append("after the failure"))
    cann.aclrtRecordEvent(event, stream)
    refused(507015, "injected fault", cann.aclrtSynchronizeEvent, event)
    cann.aclrtStreamWaitEvent(other, event)  # what comes after it has no sound inputs either
    cann.fill(b, 1, 8, other)
    refused(507015, "aclrtMemsetAsync: injected fault", cann.aclrtSynchronizeStream, stream)
    refused(507015, "what it waited for failed", cann.aclrtSynchronizeStream, other)
    assert not ran and cann.read(b) == b"\0"
    cann.fill(a, 1, 8, stream)  # told: the stream goes on
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(a) == b"\1"


@in_process()
def test_destroyed_and_foreign_handles_are_refused() -> None:
    cann.device()
    stream, event, a = cann.stream(), cann.event(), cann.malloc()
    cann.aclrtDestroyStream(stream)
    cann.aclrtDestroyEvent(event)
    later = cann.stream(), cann.event()
    assert stream not in later and event not in later
    refused(STREAM, "the stream was destroyed", cann.fill, a, 0, 8, stream)
    refused(STREAM, "the stream was destroyed", cann.aclrtDestroyStream, stream)
    refused(STREAM, "not a stream", cann.aclrtSynchronizeStream, a)
    refused(PARAM, "the event was destroyed", cann.aclrtRecordEvent, event, later[0])
    refused(PARAM, "not an event", cann.aclrtSynchronizeEvent, later[0])


@in_process()
def test_a_stream_belongs_to_its_device() -> None:
    cann.device(1)
    stream = cann.stream()
    cann.device(0)
    refused(STREAM, "the stream is on device 1, the thread's is 0", cann.fill, cann.malloc(), 0, 8, stream)
    refused(107001, "device 2 of 2", cann.device, 2)


@in_process()
def test_work_on_a_stream_that_waits_for_itself_is_an_error_not_a_hang() -> None:
    cann.device()
    stream, codes = cann.stream(), list[int]()
    synchronise = cann.library.aclrtSynchronizeStream
    _call(stream, lambda _: codes.append(synchronise(ctypes.c_void_p(stream))))
    cann.aclrtSynchronizeStream(stream)
    assert codes == [STREAM]


@in_process()
def test_destroying_waits_and_destroying_by_force_does_not() -> None:
    cann.device()
    calm, stuck, event = cann.stream(), cann.stream(), cann.event()
    ran: list[int] = []
    for i in range(20):
        _call(calm, lambda _, i=i: ran.append(i))
    cann.aclrtDestroyStream(calm)
    assert ran == list(range(20))
    go = threading.Event()
    _call(stuck, lambda _: go.wait(0.5))
    _call(stuck, lambda _: ran.append(-1))
    cann.aclrtRecordEvent(event, stuck)
    cann.aclrtDestroyStreamForce(stuck)
    code = cann.library.aclrtSynchronizeEvent(
        ctypes.c_void_p(event)
    )  # complete, with what became of its stream
    assert code == 107023 and -1 not in ran


@in_process(faults="stall:1@60", seconds=20)
def test_a_stalled_stream_can_be_given_up() -> None:
    cann.device()
    a, stream = cann.malloc(), cann.stream()
    cann.fill(a, 1, 8, stream)
    cann.fill(a, 2, 8, stream)
    refused(SYNC_TIMEOUT, "not done after 100 ms", cann.aclrtSynchronizeDeviceWithTimeout, 100)
    cann.aclrtDeviceTaskAbort(0, 0)
    refused(107022, "the device's tasks were aborted", cann.aclrtSynchronizeStream, stream)
    assert cann.read(a) == b"\0"
    cann.fill(a, 3, 8, stream)
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(a) == b"\3"


@in_process()
def test_callbacks_run_on_the_thread_that_subscribed() -> None:
    cann.device()
    stream, seen = cann.stream(), list[str]()
    callback = HOST_FUNCTION(lambda _: seen.append(f"callback {threading.current_thread().name}"))
    refused(107015, "no thread is subscribed", cann.aclrtLaunchCallback, callback, None, 1, stream)
    ready, done = threading.Event(), threading.Event()

    def listen() -> None:
        thread = ctypes.c_uint64(threading.get_ident())
        cann.device()
        cann.aclrtSubscribeReport(thread, stream)
        ready.set()
        cann.aclrtProcessReport(10_000)
        refused(507012, "no callback in 20 ms", cann.aclrtProcessReport, 20)
        cann.aclrtUnSubscribeReport(thread, stream)
        refused(107012, "not subscribed", cann.aclrtProcessReport, 20)
        done.set()

    listener = threading.Thread(target=listen, name="listener")
    listener.start()
    ready.wait(10)
    cann.aclrtLaunchCallback(callback, None, 1, stream)
    _call(stream, lambda _: seen.append("after"))
    cann.aclrtSynchronizeStream(stream)
    listener.join(20)
    assert done.is_set() and seen == ["callback listener", "after"]


@in_process()
def test_attributes_of_streams() -> None:
    cann.device()
    out = ctypes.c_void_p()
    cann.aclrtCreateStreamWithConfig(ctypes.byref(out), 3, 2)
    stream = out.value or 0
    assert cann.number("aclrtStreamGetPriority", stream) == 3
    assert cann.number("aclrtStreamGetFlags", stream) == 2
    assert cann.number("aclrtStreamGetId", stream) != cann.number("aclrtStreamGetId", cann.stream())
    refused(PARAM, "priority 9", cann.aclrtCreateStreamWithConfig, ctypes.byref(out), 9, 0)
    cann.aclrtSetStreamOverflowSwitch(stream, 1)
    assert cann.number("aclrtGetStreamOverflowSwitch", stream) == 1
    cann.aclrtSetStreamResLimit(stream, 1, 8)
    assert cann.number("aclrtGetStreamResLimit", stream, 1) == 8
    assert cann.number("aclrtGetStreamResLimit", stream, 0) == 24
    cann.aclrtUseStreamResInCurrentThread(stream)
    assert cann.number("aclrtGetResInCurrentThread", 1) == 8
    cann.aclrtUnuseStreamResInCurrentThread(stream)
    assert cann.number("aclrtGetResInCurrentThread", 1) == 48
    refused(PARAM, "49 cores of 48", cann.aclrtSetStreamResLimit, stream, 1, 49)
    refused(UNSUPPORTED, "capturing a graph", cann.aclmdlRICaptureBegin, stream, 0)


@in_process()
def test_many_threads_use_streams_at_once() -> None:
    cann.device()
    shared, a = cann.stream(), cann.malloc(4096)
    counts = [0]

    def work() -> None:
        cann.device()
        for _ in range(20):
            own, event = cann.stream(), cann.event()
            cann.fill(a, 1, 64, own)
            cann.aclrtRecordEvent(event, own)
            cann.aclrtStreamWaitEvent(shared, event)
            _call(shared, lambda _: counts.__setitem__(0, counts[0] + 1))
            cann.aclrtFree(cann.malloc(8192))
            cann.aclrtDestroyEvent(event)
            cann.aclrtDestroyStream(own)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    cann.aclrtSynchronizeDevice()
    assert counts == [160]


@in_process()
def test_an_event_may_be_recorded_on_another_stream_before_the_first_has_come_to_it() -> None:
    cann.device()
    slow, quick, third, event, go = (
        cann.stream(),
        cann.stream(),
        cann.stream(),
        cann.event(),
        threading.Event(),
    )
    order: list[str] = []
    _call(slow, lambda _: (go.wait(10), order.append("slow")))
    cann.aclrtRecordEvent(event, slow)
    cann.aclrtStreamWaitEvent(third, event)  # for the first recording, whatever comes after
    _call(third, lambda _: order.append("third"))
    cann.aclrtRecordEvent(event, quick)
    cann.aclrtSynchronizeEvent(event)
    assert cann.number("aclrtQueryEventStatus", event) == DONE and not order
    go.set()
    cann.aclrtSynchronizeStream(third)
    assert order == ["slow", "third"]
    assert (
        cann.number("aclrtQueryEventStatus", event) == DONE
    )  # the older recording, which completed last, is not it
