"""Conformance records: where they are looked for."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from hetero.accelerator import registry
from hetero.ops import Impl, conformance

ROW = {
    "op": "rms_norm",
    "impl": "acme",
    "version": "1",
    "arch": "a1",
    "dtype": "float32",
    "direction": "forward",
}
DEVICE = SimpleNamespace(vendor="acme", arch="a1", emulated=False)
EMULATED = SimpleNamespace(vendor="acme", arch="a1", emulated=True)


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """A vendor whose backend is a package of its own; yields the folder of that package."""
    package = tmp_path / "site" / "hetero_acme_records"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("class Backend: tables = ''\n")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "hetero_acme_records", raising=False)  # an earlier test's, elsewhere
    from hetero_acme_records import Backend

    monkeypatch.setattr(registry, "record", lambda name: SimpleNamespace(backend=Backend()))
    conformance.forget()
    yield package
    conformance.forget()


def unproven(dtype, device=DEVICE):
    impl = Impl("rms_norm", "acme", "native", "acme:forward", vendor="acme")
    return conformance.why_unproven(impl, "forward", device, dtype)


def test_a_backend_outside_hetero_ships_its_own_records(acme):
    import torch

    assert "no conformance record for acme/a1 float32" in unproven(torch.float32)
    (acme / "conformance.json").write_text(json.dumps({"schema": 1, "records": [ROW]}))
    conformance.forget()
    assert unproven(torch.float32) is None
    assert "bfloat16" in unproven(torch.bfloat16)


def test_records_of_this_machine_add_to_them(acme):
    import torch

    path = conformance.user_file("acme")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"schema": 1, "records": [ROW]}))
    assert unproven(torch.float32) is None


@pytest.mark.parametrize("arch, proven", [("a1", DEVICE), ("a1 (emulated)", EMULATED)])
def test_an_emulated_device_and_a_chip_prove_nothing_for_each_other(acme, arch, proven):
    import torch

    path = conformance.user_file("acme")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"schema": 1, "records": [ROW | {"arch": arch}]}))
    found = [device for device in (DEVICE, EMULATED) if unproven(torch.float32, device) is None]
    assert found == [proven]
