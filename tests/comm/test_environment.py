from __future__ import annotations

import pytest

from hetero.comm import CommError, RendezvousError, environment
from hetero.comm.environment import Place

FULL = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"}


def test_torchruns_variables_give_a_place() -> None:
    assert environment.read(FULL) == Place(1, 4, 0, "node0", 29500)
    agent = {**FULL, "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert environment.read(agent) == Place(1, 4, 0, "node0", 29500, agent_store=True, attempt=2)


def test_none_of_them_is_a_rank_alone() -> None:
    assert environment.read({"PATH": "/bin"}) is None
    assert environment.read(dict.fromkeys(FULL, "")) is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"MASTER_PORT": "", "WORLD_SIZE": ""}, "sets RANK, MASTER_ADDR but not WORLD_SIZE, MASTER_PORT"),
        ({"RANK": "4"}, r"RANK=4 is not in 0\.\.3"),
        ({"RANK": "one"}, "RANK='one' is not an integer"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT=70000 is not a port"),
        ({"LOCAL_RANK": "x"}, "LOCAL_RANK='x'"),
    ],
)
def test_half_an_environment_is_refused_by_name(change: dict[str, str], text: str) -> None:
    with pytest.raises(RendezvousError, match=text):
        environment.read({**FULL, **change})


def test_timeout_is_the_argument_then_the_variable_then_minutes() -> None:
    assert environment.timeout_seconds(7, {"HETERO_COMM_TIMEOUT": "9"}) == 7
    assert environment.timeout_seconds(None, {"HETERO_COMM_TIMEOUT": "9"}) == 9
    assert environment.timeout_seconds(None, {}) == 300
    for asked, environ in ((-1, {}), (None, {"HETERO_COMM_TIMEOUT": "0"}), (float("inf"), {})):
        with pytest.raises(CommError, match="positive number of seconds"):
            environment.timeout_seconds(asked, environ)
    with pytest.raises(CommError, match="HETERO_COMM_TIMEOUT='soon'"):
        environment.timeout_seconds(None, {"HETERO_COMM_TIMEOUT": "soon"})
