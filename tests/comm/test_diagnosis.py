"""Faults in a running job: who is named, what is said, and how soon."""

from __future__ import annotations

import signal

import pytest

from tests.comm import faults
from tests.multiprocess import Outcome, spawn


def _quiet(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert "terminate called" not in outcome.err
        assert "Traceback" not in outcome.err, outcome.err


@pytest.mark.parametrize("victim", [0, 2], ids=["store's host", "worker"])
def test_a_killed_rank_is_named_by_all_others(victim: int) -> None:
    outcomes = spawn(faults.killed, 3, args=[victim], timeout=60, check=False)
    killed_at = float(outcomes[victim].out)
    assert outcomes[victim].code == -signal.SIGKILL
    for outcome in (o for o in outcomes if o.rank != victim):
        seen = outcome.result
        assert (outcome.code, seen["error"], seen["rank"], seen["ranks"]) == (0, "PeerLost", victim, [victim])
        assert seen["call"].startswith("all_reduce(float32[1000], op=sum), number ")
        assert seen["at"] - killed_at < 5
        assert seen["again"] and seen["again_seconds"] < 0.1
    _quiet(outcomes)


def test_a_killed_sender_is_named_by_its_receiver() -> None:
    outcomes = spawn(faults.killed_while_awaited_in_a_message, 2, timeout=60, check=False)
    seen = outcomes[0].result
    assert (seen["error"], seen["rank"]) == ("PeerLost", 1)
    assert seen["call"] == "batch_p2p(float32[3] from 1 to 0), number 1"


def test_a_guard_names_a_rank_killed_in_a_backward() -> None:
    outcomes = spawn(faults.killed_in_a_backward, 2, timeout=60, check=False)
    seen = outcomes[0].result
    assert (seen["error"], seen["rank"]) == ("PeerLost", 1)
    assert seen["call"].startswith("backward of step 3")


def test_a_stopped_rank_is_named_and_does_not_rejoin() -> None:
    outcomes = spawn(faults.stopped_then_continued, 3, args=[3], timeout=60)
    for outcome in outcomes:
        seen = outcome.result
        assert (seen["error"], seen["missing"]) == ("CollectiveTimeout", [1])
        assert (seen["call"], seen["sequence"]) == ("all_reduce(float32[1000], op=sum)", 3)
        assert "frozen" in seen["doing"]["1"]
        assert "timed out after 3 s: rank 1 did not enter it" in seen["message"]
    _quiet(outcomes)


def test_a_rank_that_skips_a_collective_is_named_with_what_it_did_last() -> None:
    outcomes = spawn(faults.stays_away, 3, args=[2], timeout=60)
    for outcome in outcomes:
        seen = outcome.result
        assert (seen["error"], seen["missing"], seen["sequence"]) == ("CollectiveTimeout", [1], 4)
        assert "outside collectives, after broadcast(float32[2], src=0), number 3" in seen["doing"]["1"]
        assert "in all_reduce(float32[1000], op=sum), number 4" in seen["doing"]["0"]
    _quiet(outcomes)


def test_an_exception_of_one_rank_reaches_the_others() -> None:
    outcomes = spawn(faults.raises, 3, timeout=60)
    assert outcomes[1].result == {"error": "ValueError"}
    for outcome in (outcomes[0], outcomes[2]):
        seen = outcome.result
        assert (seen["error"], seen["rank"]) == ("PeerLost", 1)
        assert "ValueError: the learning rate is a fish" in seen["why"]
        assert "faults.py" in seen["why"]
    _quiet(outcomes)
