"""HETERO_CANN_FAULTS through the C interface, and every setting that is wrong."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.emulators.runtime.cann import (
    AICORE,
    LOST,
    OUT_OF_MEMORY,
    cann,
    environment,
    in_process,
    refused,
)


@in_process(faults="oom@3")
def test_one_allocation_fails() -> None:
    cann.device()
    cann.malloc()
    cann.malloc()
    refused(OUT_OF_MEMORY, "Failed to allocate 4096 bytes", cann.malloc)
    cann.malloc()


@in_process(faults="oom@2+")
def test_all_allocations_from_one_on_fail() -> None:
    cann.device()
    cann.malloc()
    for _ in range(3):
        refused(OUT_OF_MEMORY, "Failed to allocate", cann.malloc)


@in_process(faults="op-late:aclrtMemsetAsync@2,op-late:aclrtRecordEvent@1")
def test_the_nth_task_of_a_name_fails_on_its_stream() -> None:
    cann.device()
    a, stream, event = cann.malloc(), cann.stream(), cann.event()
    cann.fill(a, 1, 8, stream)
    cann.aclrtSynchronizeStream(stream)
    cann.fill(a, 2, 8, stream)
    refused(AICORE, "aclrtMemsetAsync: injected fault", cann.aclrtSynchronizeStream, stream)
    assert cann.read(a) == b"\1"
    cann.aclrtRecordEvent(event, stream)
    refused(AICORE, "aclrtRecordEvent: injected fault", cann.aclrtSynchronizeStream, stream)


def _seconds(stream: int) -> float:
    begin = time.monotonic()
    cann.aclrtSynchronizeStream(stream)
    return time.monotonic() - begin


@in_process(faults="stall:2@0.9,late:aclrtMemsetAsync@3:0.9")
def test_tasks_stand_still_for_their_time() -> None:
    cann.device()
    a, stream, other = cann.malloc(), cann.stream(), cann.stream()
    cann.fill(a, 1, 8, other)
    assert _seconds(other) < 0.8
    cann.fill(a, 2, 8, stream)
    assert 0.85 < _seconds(stream) < 20
    cann.fill(a, 3, 8, other)
    assert 0.85 < _seconds(other) < 20
    cann.fill(a, 4, 8, other)
    assert _seconds(other) < 0.8


@in_process(faults="device-lost@2")
def test_a_lost_device_stays_lost_and_the_other_does_not() -> None:
    cann.device()
    a, stream = cann.malloc(), cann.stream()
    cann.fill(a, 1, 8, stream)
    refused(LOST, "device 0 was lost", cann.fill, a, 1, 8, stream)
    refused(LOST, "device 0 was lost", cann.aclrtSynchronizeStream, stream)
    refused(LOST, "device 0 was lost", cann.aclrtSynchronizeDevice)
    refused(LOST, "device 0 was lost", cann.malloc)
    refused(LOST, "device 0 was lost", cann.device, 0)
    assert cann.library.aclrtPeekAtLastError(0) == LOST
    cann.device(1)
    b, there = cann.malloc(), cann.stream()
    cann.fill(b, 1, 8, there)
    cann.aclrtSynchronizeStream(there)
    assert cann.read(b) == b"\1" and cann.library.aclrtPeekAtLastError(0) == 0


@in_process(faults="oom@1#1", env={"RANK": "0"})
def test_a_fault_of_another_rank_does_not_happen() -> None:
    cann.device()
    cann.malloc()


@in_process(faults="oom@1#1", env={"RANK": "1"})
def test_a_fault_of_this_rank_does() -> None:
    cann.device()
    refused(OUT_OF_MEMORY, "Failed to allocate", cann.malloc)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"faults": "oom@x"}, 'HETERO_CANN_FAULTS: "oom@x": "x" is not a count from 1'),
        ({"faults": "oom@0"}, '"0" is not a count from 1'),
        ({"faults": "oom"}, "has no @"),
        ({"faults": "oom@1,"}, '"": has no @'),
        ({"faults": "oom:aclnnAdd@1"}, "takes no name"),
        ({"faults": "op@1"}, "has no name after op:"),
        (
            {"faults": "oom@1,opp:aclnnAdd@1"},
            '"opp" is not one of oom, op, op-late, stall, late, hccl, device-lost',
        ),
        ({"faults": "late:HcclSend@1"}, "has no :SECONDS at its end"),
        ({"faults": "late:HcclSend@1:soon"}, '"soon" is not a number of seconds'),
        ({"faults": "stall:1@-2"}, '"-2" is not a number of seconds'),
        ({"faults": "oom@1#one"}, '"one" is not a rank'),
        ({"devices": 0}, "HETERO_CANN_DEVICES=0: not a whole number from 1 to 8"),
        ({"devices": "two"}, "HETERO_CANN_DEVICES=two"),
        ({"soc": "Ascend910B9"}, "HETERO_CANN_SOC=Ascend910B9: not one of Ascend910PremiumA"),
        ({"memory": "4GB"}, "HETERO_CANN_MEMORY=4GB: not a size"),
        ({"memory": "1MiB"}, "not a size from 16MiB"),
        ({"memory": "-5"}, "HETERO_CANN_MEMORY=-5"),
        ({"delay": "1.5"}, "HETERO_CANN_DELAY=1.5"),
        ({"races": "yes"}, "HETERO_CANN_RACES=yes: not 0, 1 or report"),
        ({"fault": "oom@1"}, "HETERO_CANN_FAULT: there is no such setting"),
    ],
)
def test_a_wrong_setting_ends_the_process_at_load(settings: dict[str, Any], says: str) -> None:
    command = [sys.executable, "-c", "import ctypes; ctypes.CDLL('libascendcl.so')"]
    done = subprocess.run(command, env=environment(settings), text=True, capture_output=True, timeout=30)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr


@in_process(devices=4, env={"ASCEND_RT_VISIBLE_DEVICES": "3,1,9,0"})
def test_visible_devices_count_up_to_the_first_that_is_not_there() -> None:
    assert cann.number("aclrtGetDeviceCount", kind=ctypes.c_uint32) == 2
    assert cann.number("aclrtGetLogicDevIdByUserDevId", 0) == 3


@in_process(soc="Ascend910B3", memory="1GiB")
def test_what_a_device_says_of_itself() -> None:
    cann.library.aclrtGetSocName.restype = ctypes.c_char_p
    assert cann.library.aclrtGetSocName() == b"Ascend910B3"
    cores = [cann.number("aclGetDeviceCapability", 0, i, kind=ctypes.c_int64) for i in range(3)]
    assert cores == [20, 40, 192 << 20]
    assert cann.number("aclrtGetDeviceInfo", 1, 301, kind=ctypes.c_int64) == 1 << 30
    uuids = [ctypes.create_string_buffer(16) for _ in range(2)]
    for i, uuid in enumerate(uuids):
        cann.aclrtDeviceGetUuid(i, uuid)
    assert uuids[0].raw != uuids[1].raw
    assert cann.number("aclGetCannAttribute", 1) == 1  # bfloat16


@in_process(soc="Ascend910A")
def test_an_old_soc_has_no_bfloat16() -> None:
    assert cann.number("aclGetCannAttribute", 1) == 0
