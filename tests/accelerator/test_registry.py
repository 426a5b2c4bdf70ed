import pytest

from hetero.accelerator import registry


def states():
    return {r.name: r.probe.state for r in registry.records()}


def test_in_tree_backends_come_through_the_entry_points():
    assert set(states()) >= {"cpu", "cuda", "ascend", "metax", "biren"}
    assert states()["cpu"] == "found"


def test_a_plugin_that_raises_is_broken_and_the_others_are_not(plugins, fake):
    class Raises(fake):
        def probe(self, host):
            raise OSError("libacme.so: cannot open shared object file")

    plugins(Raises("acme"), fake("other"))
    assert states() == {"cpu": "found", "acme": "broken", "other": "found"}
    error = registry.record("acme").probe.error
    assert "OSError: libacme.so" in error and "test_registry.py" in error


def test_a_plugin_that_exits_or_cannot_be_imported_is_broken(plugins, fake, monkeypatch):
    def exits():
        raise SystemExit(3)

    plugins(exits, names=("acme",))
    assert registry.record("acme").probe.error.startswith("SystemExit: 3")


def test_a_factory_or_a_class_is_called(plugins, fake):
    class Acme(fake):
        def __init__(self):
            super().__init__("acme")

    plugins(Acme, lambda: fake("other"), names=("acme", "other"))
    assert states() == {"cpu": "found", "acme": "found", "other": "found"}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"api": (2, 0)}, "backend API 2.0.*has 1.0: upgrade hetero"),
        ({"api": (0, 1)}, "backend API 0.1.*has 1.0: upgrade unknown package"),
        ({"name": "acne"}, "called 'acme' but the backend names itself 'acne'"),
        ({"torch_types": ()}, "torch_types is empty"),
        ({"probe": lambda host: "found"}, r"probe\(\) returned str"),
    ],
)
def test_a_plugin_that_does_not_fit_says_why(plugins, fake, change, message):
    backend = fake("acme")
    for key, value in change.items():
        setattr(backend, key, value)
    plugins(backend, names=("acme",))
    record = registry.record("acme")
    assert record.probe.state == "broken"
    import re

    assert re.search(message, record.probe.error), record.probe.error


def test_something_else_than_a_backend(plugins):
    plugins(lambda: {"name": "acme"}, names=("acme",))
    assert "gives a dict" in registry.record("acme").probe.error


def test_a_name_that_is_taken_is_reported_and_does_not_replace(plugins, fake):
    first, second = fake("acme"), fake("acme")
    plugins(first, second)
    assert registry.record("acme").probe.state == "found"
    clash = [r for r in registry.records() if r.name.startswith("acme (")]
    assert len(clash) == 1 and "already taken" in clash[0].probe.error


def test_probes_run_once(plugins, fake):
    backend = fake("acme")
    calls = []
    probe = backend.probe
    backend.probe = lambda host: calls.append(1) or probe(host)
    plugins(backend)
    registry.records()
    registry.records()
    assert len(calls) == 1
