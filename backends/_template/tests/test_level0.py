"""The plugin keeps hetero's promises, and hetero finds it by name."""

import hetero
from hetero.conform import level0
from hetero_acme import backend


def test_conformance_level_0():
    failed = level0.failures(level0.run(backend))
    assert not failed, "\n".join(map(str, failed))


def test_is_found_by_name():
    assert hetero.device("acme").vendor == "acme"
