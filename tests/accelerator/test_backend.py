import pytest

from hetero.accelerator.backend import API, Backend, Probe, check_api


def test_the_same_major_and_an_older_minor_fit(monkeypatch):
    monkeypatch.setattr("hetero.accelerator.backend.API", (1, 3))
    assert check_api("acme", (1, 3), "hetero-acme 0.1") is None
    assert check_api("acme", (1, 0), "hetero-acme 0.1") is None


@pytest.mark.parametrize(
    "api, upgrade", [((2, 0), "hetero"), ((1, 9), "hetero"), ((0, 9), "hetero-acme 0.1")]
)
def test_a_mismatch_names_both_versions_and_what_to_upgrade(api, upgrade):
    message = check_api("acme", api, "hetero-acme 0.1")
    assert message is not None
    assert "{}.{}".format(*api) in message and "{}.{}".format(*API) in message
    assert message.endswith(f"upgrade {upgrade}")


@pytest.mark.parametrize("api", ["1.0", (1,), (1, "0"), None])
def test_a_malformed_version_is_said_to_be_one(api):
    assert "(major, minor)" in (check_api("acme", api, "hetero-acme 0.1") or "")


def test_a_probe_has_one_of_three_states():
    with pytest.raises(ValueError, match="'maybe'"):
        Probe("maybe")


def test_defaults_promise_nothing():
    backend = Backend()
    assert backend.comm() is None and not list(backend.ops()) and backend.launch_env() == {}
    with backend.range("step"):
        pass
    with pytest.raises(NotImplementedError):
        backend.probe(None)  # type: ignore[arg-type]
