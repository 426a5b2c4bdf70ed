from __future__ import annotations

import json

import pytest

from hetero.comm import CollectiveMismatch, CollectiveTimeout, CommError, PeerLost
from hetero.comm.errors import from_wire

LOST = PeerLost([2, 5], "all_reduce(float32[3]), number 4", "killed")
LATE = CollectiveTimeout("barrier()", 7, [1], {0: "in barrier()", 1: "frozen"}, 2.5)


@pytest.mark.parametrize("error", [LOST, LATE])
def test_a_report_survives_the_wire(error: PeerLost | CollectiveTimeout) -> None:
    again = from_wire(json.loads(json.dumps(error.to_wire())))
    assert type(again) is type(error) and isinstance(again, CommError)
    assert vars(again) == vars(error) and str(again) == str(error)


def test_messages_name_ranks_calls_and_what_to_do() -> None:
    assert LOST.rank == 2 and "lost ranks 2, 5 during all_reduce(float32[3]), number 4: killed" in str(LOST)
    text = str(LATE)
    assert "barrier(), number 7 of its group, timed out after 2.5 s: rank 1 did not enter it" in text
    assert "  rank 0: in barrier()\n  rank 1: frozen" in text and "HETERO_COMM_TIMEOUT" in text
    grouped = CollectiveMismatch({2: "a", 0: "a", 1: "b"})
    assert list(grouped.sides) == [0, 1, 2] and "ranks 0, 2: a\n  rank 1: b" in str(grouped)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"error": "SystemExit"},
        {"error": "PeerLost"},
        {"error": "PeerLost", "ranks": [], "call": "", "why": ""},
        {"error": "CollectiveTimeout", "doing": 3},
    ],
)
def test_what_is_no_report_is_refused(message: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not an error report"):
        from_wire(message)
