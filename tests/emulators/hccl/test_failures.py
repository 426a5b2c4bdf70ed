"""What emulated HCCL does when a rank dies, leaves, lags or errs: nobody hangs, and all are told why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.emulators.hccl import failures, job
from tests.emulators.hccl.job import Outcome

#: aclrtSynchronizeStream after a lost peer, after HCCL_EXEC_TIMEOUT, after an injected fault, after a bad call.
REMOTE, TIMEOUT, INTERNAL = 507057, 507048, 507000
#: Where a rank may also be told by the call itself, HCCL_E_REMOTE, since another has ended the communicator already.
LOST = (REMOTE, 21)


def others(outcomes: list[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if o.rank != 1]


@pytest.mark.parametrize("name", ["HcclAllReduce", "HcclAllGather", "HcclAlltoAll", "HcclRecv", "HcclSend"])
def test_a_dead_peer_is_noticed_in_seconds(libraries: Path, name: str) -> None:
    outcomes = job.run(failures.a_peer_dies, 3, libraries, args=[name], check=False)
    assert outcomes[1].code == -9
    for outcome in others(outcomes):
        told = outcome.result
        assert told["code"] in LOST and "rank 1 (process " in told["text"] and "has died" in told["text"]
        assert told["seconds"] < 5
        assert told["async"] == 21  # HCCL_E_REMOTE
        assert told["again"]["code"] == 21 and "has died" in told["again"]["text"]


def test_a_peer_that_dies_at_work_is_noticed(libraries: Path) -> None:
    outcomes = job.run(failures.a_peer_dies_at_work, 3, libraries, check=False)
    for outcome in others(outcomes):
        assert outcome.result["code"] in LOST and "has died" in outcome.result["text"]
        assert outcome.result["seconds"] < 5


def test_a_peer_that_leaves_is_noticed(libraries: Path) -> None:
    told = job.run(failures.a_peer_leaves, 2, libraries)[0].result
    assert told["code"] == REMOTE and "has destroyed its communicator" in told["text"]


def test_the_execution_timeout_is_honoured(libraries: Path) -> None:
    zero, one = job.run(failures.a_peer_does_something_else, 2, libraries, env={"HCCL_EXEC_TIMEOUT": "1"})
    assert zero.result["code"] == TIMEOUT and 0.9 < zero.result["seconds"] < 4
    assert "HCCL_EXEC_TIMEOUT of 1 s, waiting for rank 1" in zero.result["text"]
    assert "its number 1, HcclAllReduce" in zero.result["text"]
    assert zero.result["async"] == one.result["async"] == 9  # HCCL_E_TIMEOUT


def test_an_absent_rank_is_named_after_the_connect_timeout(libraries: Path) -> None:
    env = {"HETERO_CANN_SECOND": "0.01"}  # 120 s, the least that HCCL_CONNECT_TIMEOUT takes, are 1.2 s
    told = job.run(failures.joining, 2, libraries, args=["a peer is absent"], env=env)[0].result
    assert told["code"] == 9 and 1.0 < told["seconds"] < 5
    assert "HCCL_CONNECT_TIMEOUT of 120 s, waiting for rank 1, which has not joined" in told["text"]


def test_a_rank_that_dies_while_others_join_is_noticed(libraries: Path) -> None:
    told = job.run(failures.joining, 2, libraries, args=["a peer dies"], check=False)[0].result
    assert told["code"] == 21 and "rank 1" in told["text"] and told["seconds"] < 5


@pytest.mark.parametrize(
    ("setting", "value"),
    [("HCCL_CONNECT_TIMEOUT", "119"), ("HCCL_CONNECT_TIMEOUT", "7201"), ("HCCL_CONNECT_TIMEOUT", "2m"),
     ("HCCL_EXEC_TIMEOUT", "-1"), ("HCCL_EXEC_TIMEOUT", "1.5")],
)  # fmt: skip
def test_settings_have_their_documented_ranges(libraries: Path, setting: str, value: str) -> None:
    told = job.run(failures.joining, 1, libraries, args=["none"], env={setting: value})[0].result
    assert told["code"] == 1 and f"{setting}={value} is not a whole number from" in told["text"]


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        ("one device", "ranks 0 and 1 are both on device 0"),
        ("one number", "rank 0 is taken by process"),
        ("sizes differ", "another rank of this root info said"),
        ("no such rank", "rank 5 of 2 ranks"),
    ],
)
def test_ranks_that_do_not_fit_are_refused(libraries: Path, mistake: str, text: str) -> None:
    env = {"HETERO_CANN_SECOND": "0.01"}
    outcomes = job.run(failures.joining, 2, libraries, args=[mistake], env=env)
    said = [o.result for o in outcomes if text in o.result["text"]]
    assert said and all(told["code"] == 1 for told in said), outcomes
    assert all(o.result["code"] for o in outcomes)  # nobody has a communicator


def test_a_root_info_that_is_none_is_refused(libraries: Path) -> None:
    junk, gone, none, many = job.run(failures.not_a_root_info, 1, libraries)[0].result
    assert junk["code"] == 1 and "not one that" in junk["text"]
    assert gone["code"] == 11 and "process 4194303" in gone["text"]
    assert none["code"] == many["code"] == 1 and "99 ranks" in many["text"]
    told = job.run(failures.no_device_is_set, 1, libraries)[0].result
    assert told["code"] == 15 and "no device is set" in told["text"]


def test_an_injected_failure_reaches_every_rank(libraries: Path) -> None:
    outcomes = job.run(
        failures.three_all_reduces,
        3,
        libraries,
        each=lambda rank: {"HETERO_CANN_FAULTS": "hccl:HcclAllReduce@3"} if rank == 1 else {},
    )
    for outcome in outcomes:
        first, second, third = (told["code"] for told in outcome.result)
        assert first == second == 0
        assert third == INTERNAL if outcome.rank == 1 else third in LOST
        assert (
            "rank 1: a fault was injected in HcclAllReduce" in outcome.result[2]["text"] or outcome.rank == 1
        )


def test_a_late_rank_delays_the_others_and_no_more(libraries: Path) -> None:
    outcomes = job.run(
        failures.three_all_reduces,
        2,
        libraries,
        each=lambda rank: {"HETERO_CANN_FAULTS": "late:HcclAllReduce@2:0.7"} if rank == 1 else {},
    )
    for outcome in outcomes:
        assert [told["code"] for told in outcome.result] == [0, 0, 0]
        assert outcome.result[1]["seconds"] > 0.6 > outcome.result[2]["seconds"]


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_that_all_send_first_are_told(libraries: Path, size: int) -> None:
    codes = set()
    for outcome in job.run(failures.both_send_first, size, libraries):
        codes.add(outcome.result["code"])
        assert "deadlock: rank" in outcome.result["text"] and outcome.result["seconds"] < 10
    assert codes <= {TIMEOUT, *LOST} and TIMEOUT in codes


def test_a_collective_that_a_failed_stream_skips_reaches_the_peers(libraries: Path) -> None:
    outcomes = job.run(
        failures.a_stream_fails_first,
        2,
        libraries,
        each=lambda rank: {"HETERO_CANN_FAULTS": "hccl:HcclBarrier@1"} if rank == 0 else {},
    )
    assert outcomes[0].result["code"] == INTERNAL
    told = outcomes[1].result
    assert told["code"] in LOST and "rank 0 did not run HcclAllReduce" in told["text"] and told["seconds"] < 5


def test_memory_that_is_freed_too_early_reaches_the_peers(libraries: Path) -> None:
    outcomes = job.run(failures.freed_too_early, 2, libraries, env={"HETERO_CANN_DELAY": "200000"})
    assert outcomes[0].result["code"] and "freed" in outcomes[0].result["text"]
    assert outcomes[1].result["code"] in LOST


def test_destroying_a_communicator_ends_what_waits_in_it(libraries: Path) -> None:
    told = job.run(failures.destroyed_while_waiting, 2, libraries)[0].result
    assert told["code"] == 0 and told["seconds"] < 5
    assert told["stream"]["code"] and "was destroyed" in told["stream"]["text"]


def test_nothing_is_left_behind(libraries: Path) -> None:
    for outcome in job.run(failures.nothing_is_left, 2, libraries):
        told = outcome.result
        assert told["before"] == [] == told["after"] == told["named"]
        assert any("memfd:hetero-hccl" in text for text in told["during"])
    for name in ("HcclAllReduce", "HcclRecv"):
        job.run(failures.a_peer_dies, 2, libraries, args=[name], check=False)
    assert [name for name in os.listdir("/dev/shm") if "hccl" in name] == []


def test_subgroups_of_a_communicator(libraries: Path) -> None:
    for outcome in job.run(failures.subgroups, 3, libraries):
        assert outcome.result["wrong"]["code"] == 1 and "subCommRankId" in outcome.result["wrong"]["text"]
        assert outcome.result["suspended"]["code"] == 22  # HCCL_E_SUSPENDING


def test_a_rank_table(libraries: Path) -> None:
    for outcome in job.run(failures.rank_table, 3, libraries):
        assert outcome.result == [6, 6]


def test_all_devices_of_one_process(libraries: Path) -> None:
    assert job.run(failures.all_in_one_process, 1, libraries)[0].result == [3, 3]


@pytest.mark.parametrize(
    ("soc", "codes"),
    [
        ("Ascend910A", [5, 5, 5, 5, 5, 5, 5]),
        ("Ascend910B3", [0, 0, 0, 5, 5, 0, 0]),
        ("Ascend910_9391", [0, 0, 0, 0, 5, 0, 0]),
    ],
)
def test_each_generation_has_its_own_limits(libraries: Path, soc: str, codes: list[int]) -> None:
    said = job.run(failures.what_the_chip_refuses, 1, libraries, env={"HETERO_CANN_SOC": soc})[0].result
    assert [int(line.split()[1]) for line in said] == codes, said
