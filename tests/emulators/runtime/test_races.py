"""HETERO_CANN_RACES: two streams and no order between them is an error, whenever they happen to run."""

from __future__ import annotations

import ctypes

from tests.emulators.runtime.cann import D2D, D2H, PARAM, cann, in_process, refused


def _streams() -> tuple[int, int, int, int]:
    cann.device()
    return cann.stream(), cann.stream(), cann.malloc(), cann.malloc()


@in_process(races=1)
def test_write_and_read_without_an_order() -> None:
    one, other, a, b = _streams()
    cann.fill(a, 1, 64, one)
    says = "aclrtMemcpyAsync on stream 2 reads device memory that aclrtMemsetAsync on stream 1 writes"
    refused(PARAM, says, cann.copy, b, a + 32, 8, D2D, other)
    cann.copy(b, a + 64, 8, D2D, other)  # other bytes


@in_process(races=1)
def test_read_and_write_without_an_order() -> None:
    one, other, a, b = _streams()
    cann.copy(b, a, 64, D2D, one)
    cann.copy(b + 64, a, 64, D2D, other)  # two that read are none
    refused(PARAM, "aclrtMemsetAsync on stream 2 writes", cann.fill, a + 60, 1, 64, other)
    refused(PARAM, "aclrtMemsetAsync on stream 2 writes", cann.fill, b, 1, 8, other)


@in_process(races=1)
def test_what_makes_an_order() -> None:
    one, other, a, b = _streams()
    event = cann.event()
    cann.fill(a, 1, 64, one)
    cann.aclrtRecordEvent(event, one)
    cann.aclrtStreamWaitEvent(other, event)
    cann.copy(b, a, 64, D2D, other)  # an event

    cann.aclrtSynchronizeStream(other)
    cann.fill(a, 2, 64, one)  # a stream that was synchronised

    cann.aclrtRecordEvent(event, one)
    cann.aclrtSynchronizeEvent(event)
    cann.fill(a, 3, 64, other)  # an event that was

    cann.aclrtSynchronizeDevice()
    cann.fill(a, 4, 64, one)  # the device

    cann.aclrtRecordEvent(event, one)
    while not cann.number("aclrtQueryEventStatus", event):
        pass
    cann.fill(a, 5, 64, other)  # an event seen to be complete

    third = cann.stream()
    cann.aclrtRecordEvent(event, other)
    cann.aclrtStreamWaitEvent(one, event)
    cann.aclrtRecordEvent(event, one)
    cann.aclrtStreamWaitEvent(third, event)
    cann.fill(a, 6, 64, third)  # by way of a stream between


@in_process(races=1)
def test_an_event_orders_what_came_before_it_only() -> None:
    one, other, a, _ = _streams()
    event = cann.event()
    cann.aclrtRecordEvent(event, one)
    cann.fill(a, 1, 64, one)
    cann.aclrtStreamWaitEvent(other, event)
    refused(PARAM, "race", cann.fill, a, 2, 64, other)


@in_process(races=1)
def test_the_host_is_one_of_them() -> None:
    one, _, a, b = _streams()
    host = ctypes.create_string_buffer(8)
    cann.fill(a, 1, 64, one)
    refused(PARAM, "aclrtMemcpy on the host reads", cann.copy, ctypes.addressof(host), a, 8, D2H)
    cann.aclrtSynchronizeStream(one)
    cann.copy(ctypes.addressof(host), a, 8, D2H)
    cann.fill(b, 1, 64)
    cann.fill(b, 2, 64, one)  # launched after


@in_process(races="report", says="emulated CANN: race: aclrtMemsetAsync on stream 2 writes")
def test_a_report_is_a_line_and_no_error() -> None:
    one, other, a, _ = _streams()
    cann.fill(a, 1, 64, one)
    cann.fill(a, 2, 64, other)
    cann.aclrtSynchronizeDevice()


@in_process()
def test_it_is_off_unless_asked_for() -> None:
    one, other, a, _ = _streams()
    cann.fill(a, 1, 64, one)
    cann.fill(a, 2, 64, other)
    cann.aclrtSynchronizeDevice()
