"""Ranks asking each other, all of them in this process; a frozen one is a thread that never answers."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator

import pytest

from hetero.comm import PeerLost
from hetero.comm.peers import Peers, own_address


@pytest.fixture
def trio() -> Iterator[list[Peers]]:
    peers = [Peers(rank, "127.0.0.1") for rank in range(3)]
    for one in peers:
        one.start("job", {other.rank: other.address for other in peers if other is not one})
    yield peers
    for one in peers:
        one.close()


def test_a_living_peer_says_what_it_is_in(trio: list[Peers]) -> None:
    trio[1].progress.enter("world", 4, "barrier()")
    trio[2].progress.enter("world", 3, "all_reduce(float32[2])")
    trio[2].progress.leave("world", 3, "all_reduce(float32[2])")
    answers = trio[0].ask([0, 1, 2])
    assert set(answers) == {1, 2}
    assert answers[1].state == answers[2].state == "alive"
    assert answers[1].entered("world", 4) and not answers[2].entered("world", 4)
    assert answers[1].running("world") and not answers[2].running("world")
    assert not answers[1].entered("another group", 1)
    assert str(answers[1]).startswith("in barrier(), number 4, since 0.")
    assert str(answers[2]).startswith("outside collectives, after all_reduce(float32[2]), number 3")
    assert str(trio[1].ask([0])[0]) == "alive, in no collective so far"


def test_a_peer_that_is_gone_is_lost(trio: list[Peers]) -> None:
    trio[2].close()
    answers = trio[0].ask([1, 2])
    assert (answers[1].state, answers[2].state) == ("alive", "lost")


def test_a_peer_that_accepts_and_stays_silent_is_frozen(trio: list[Peers]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        trio[0]._others[2] = silent.getsockname()
        begin = time.monotonic()
        assert trio[0].ask([2])[2].state == "frozen"
        assert time.monotonic() - begin < 4


def test_another_program_on_the_port_is_a_lost_peer(trio: list[Peers]) -> None:
    stranger = Peers(2, "127.0.0.1")
    stranger.start("another job", {})
    trio[0]._others[2] = stranger.address
    assert trio[0].ask([2])[2].state == "lost"
    stranger.close()


def test_a_verdict_reaches_all_and_the_first_one_stays(trio: list[Peers]) -> None:
    trio[0].tell(PeerLost([2], "barrier()", "killed"), skip=[2])
    trio[0].tell(PeerLost([1], "barrier()", "a later guess"), skip=[2])
    assert trio[1].verdict is not None and trio[1].verdict.ranks == (2,)
    assert trio[2].verdict is None


@pytest.mark.parametrize(
    "line",
    [b"", b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b'{"job": "other", "verdict": {"error": "PeerLost"}}\n'],
)
def test_strangers_are_not_answered_and_do_no_harm(trio: list[Peers], line: bytes) -> None:
    with socket.create_connection(trio[1].address) as caller:
        caller.sendall(line)
        caller.shutdown(socket.SHUT_WR)
        assert caller.recv(100) == b""
    assert trio[1].verdict is None
    assert trio[0].ask([1])[1].state == "alive"


def test_a_forked_child_lets_go_of_the_socket(trio: list[Peers]) -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.write(write, json.dumps([one._listener.fileno() for one in trio]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert json.load(pipe) == [-1, -1, -1]
    os.waitpid(pid, 0)
    assert trio[0].ask([1])[1].state == "alive"


def test_own_address_is_the_one_on_the_way() -> None:
    assert own_address("127.0.0.1", 1) == "127.0.0.1"
