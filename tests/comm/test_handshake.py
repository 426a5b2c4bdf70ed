from __future__ import annotations

import os

import pytest

import hetero
from hetero.comm import HandshakeError, handshake
from tests.comm import faults
from tests.multiprocess import spawn


def test_own_facts_are_about_this_process() -> None:
    facts = handshake.facts(hetero.device("cpu"), "gloo", 4, True)
    assert facts["pid"] == str(os.getpid()) and facts["vendor"] == "cpu" and facts["world"] == "4"
    assert facts["torch"].count(".") == 1 and "fp64" in facts["dtypes"] and facts["check"] == "on"
    own = (facts, ("127.0.0.1", 5), "job")
    assert handshake.load(handshake.dump(*own)) == own


def test_a_difference_is_a_table_of_ranks_and_facts() -> None:
    one = handshake.facts(hetero.device("cpu"), "gloo", 2, True)
    handshake.compare([one, {**one, "pid": "7", "host": "elsewhere", "arch": "avx512"}])
    with pytest.raises(HandshakeError) as raised:
        handshake.compare([one, {**one, "library": "XCCL", "dtypes": "fp32", "host": "elsewhere"}])
    assert raised.value.facts == ("library", "dtypes")
    header, *rows = raised.value.table.splitlines()
    assert "*library" in header and "*dtypes" in header and " torch" in header
    assert [row.split()[0] for row in rows] == ["0", "1"]
    assert "elsewhere" in rows[1] and "XCCL" in rows[1] and "gloo" in rows[0]


@pytest.mark.parametrize(("fact", "told"), [("hetero", "9.4"), ("torch", "2.99"), ("check", "off")])
def test_every_rank_gets_the_table(fact: str, told: str) -> None:
    outcomes = spawn(faults.fakes, 3, args=[1, fact], timeout=60)
    for outcome in outcomes:
        seen = outcome.result
        assert (seen["error"], seen["facts"]) == ("HandshakeError", [fact])
        assert f"*{fact}" in seen["message"] and told in seen["message"]
        assert outcome.err == ""
