import contextlib
import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from hetero.accelerator import Host
from hetero.backends.biren import backend


@pytest.fixture
def installed(monkeypatch):
    def make(package, version, name="Biren106M"):
        monkeypatch.setattr(Host, "package", lambda self, module, *names: {package: version}.get(module))
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
        monkeypatch.setattr(backend, "module", lambda: SimpleNamespace(get_device_name=lambda index: name))

    return make


@pytest.mark.parametrize(
    "package, version, arch, comm",
    [
        ("torch_supa", "1.0.0.20900+br2xx", "br2xx", "bccl"),
        ("torch_br", "1.10.0.20900+br1xx", "br1xx", "sccl"),
    ],
)
def test_the_two_lines(installed, package, version, arch, comm):
    installed(package, version)
    assert backend.identity(0).arch == arch and backend.identity(0).driver == {package: version}
    assert backend.comm().backend == comm
    caps = backend.caps(0)
    assert caps.bf16 and caps.fp64.state == "no" and caps.warp.state == "unknown" and not caps.peaks
    assert caps.fp8_formats.state == "unknown" and not caps.graph_capture


def test_loading_sets_the_environment_first_and_never_over_the_users(installed, monkeypatch):
    installed("torch_supa", "1.0.0.20900+br2xx")
    for name in ("SUPA_VISIBLE_DEVICES", "BRTB_LOG_BACKEND", "TORCH_DEVICE_BACKEND_AUTOLOAD"):
        monkeypatch.setenv(name, "to be removed at the end of the test")
        monkeypatch.delenv(name)
    monkeypatch.setenv("BRTB_TRANSFER_SILENCE", "0")
    monkeypatch.setenv("BIREN_VISIBLE_DEVICES", "2,3")
    backend.load()
    assert os.environ["SUPA_VISIBLE_DEVICES"] == "2,3"
    assert os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    assert os.environ["BRTB_TRANSFER_SILENCE"] == "0"


def test_unverified_collectives_are_listed(installed):
    installed("torch_supa", "1.0.0.20900+br2xx")
    assert {"reduce", "gather", "scatter", "batch_isend_irecv"} <= set(backend.comm().unverified)


def test_ranges_are_closed_even_on_an_error(installed, monkeypatch):
    log = []
    brtx = SimpleNamespace(range_push=lambda name: log.append(name), range_pop=lambda: log.append("pop"))
    monkeypatch.setattr(backend, "module", lambda: SimpleNamespace(brtx=brtx))
    with contextlib.suppress(KeyError), backend.range("step"):
        raise KeyError
    assert log == ["step", "pop"]
    monkeypatch.setattr(backend, "module", lambda: SimpleNamespace())
    with backend.range("step"):
        pass
