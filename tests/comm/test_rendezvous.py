from __future__ import annotations

import os
import socket

import pytest

from hetero.comm import RendezvousError, rendezvous
from hetero.comm.environment import Place
from tests.comm import faults
from tests.multiprocess import free_port, spawn


def test_a_rank_that_never_arrives_is_named_by_all() -> None:
    outcomes = spawn(faults.only_arrives, 4, args=[3], ranks=[0, 1], timeout=60)
    for outcome in outcomes:
        assert outcome.result["error"] == "RendezvousError"
        assert outcome.result["missing"] == [2, 3]
        assert "ranks 2, 3 of 4 never arrived" in outcome.result["message"]
        assert outcome.result["seconds"] < 8


def test_rank_0_that_never_arrives_is_named() -> None:
    (outcome,) = spawn(faults.only_arrives, 2, args=[2], ranks=[1], timeout=60)
    assert outcome.result["missing"] == [0] and "rank 0 never arrived" in outcome.result["message"]
    assert outcome.result["seconds"] < 6


def test_a_name_that_does_not_resolve_fails_soon() -> None:
    outcomes = spawn(
        faults.only_arrives, 2, args=[600], env={"MASTER_ADDR": "no-such-host.invalid"}, timeout=60
    )
    for outcome in outcomes:
        assert "MASTER_ADDR='no-such-host.invalid' does not resolve" in outcome.result["message"]
        assert outcome.result["seconds"] < 10


def test_a_port_in_use_is_named_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            RendezvousError, match=rf"MASTER_PORT={port} is in use .* by process {os.getpid()} \("
        ):
            rendezvous.join(Place(0, 2, 0, "127.0.0.1", port), 600)


def test_a_service_that_is_no_store_does_not_hang() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        (outcome,) = spawn(
            faults.only_arrives,
            2,
            args=[2],
            ranks=[1],
            env={"MASTER_PORT": str(other.getsockname()[1])},
            timeout=60,
        )
    assert outcome.result["error"] == "RendezvousError" and "not the job's store" in outcome.result["message"]
    assert outcome.result["seconds"] < 8


def test_an_address_that_is_not_rank_0s_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_args: object, **_kwargs: object) -> None:
        raise OSError(113, "No route to host")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    with pytest.raises(RendezvousError, match="does not lead to this machine"):
        rendezvous.join(Place(0, 2, 0, "127.0.0.1", free_port()), 600)
    with pytest.raises(RendezvousError, match="cannot be reached from"):
        rendezvous.join(Place(1, 2, 1, "127.0.0.1", free_port()), 600)


def test_ranks_exchange_values_and_the_store_listens_on_loopback_only() -> None:
    place = Place(0, 1, 0, "127.0.0.1", free_port())
    store = rendezvous.join(place, 10)
    assert rendezvous.exchange(store, place, "mine", 10) == ["mine"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", place.port), timeout=5)


def test_loopback_is_known_by_its_writing() -> None:
    assert all(map(rendezvous.is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    assert not any(map(rendezvous.is_loopback, ("node0", "10.0.0.1", "::", "0.0.0.0")))
