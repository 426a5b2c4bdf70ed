import os
import pickle
import timeit

import pytest
import torch

import hetero
from hetero.accelerator import device_of, select
from hetero.accelerator.backend import GENERIC, PLACEHOLDER, SPECIFIC
from hetero.errors import BackendError, DeviceError


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv("HETERO_BACKEND", raising=False)
    select.reset()
    yield
    select.reset()


# -- the machine as it is
def test_cpu_by_every_name():
    cpu = hetero.device("cpu")
    for spec in ("cpu:0", " CPU ", torch.device("cpu"), torch.device("cpu", 0), cpu):
        assert hetero.device(spec) is cpu
    assert hetero.device_of(torch.zeros(1)) is cpu
    assert cpu.torch == torch.device("cpu")
    assert cpu in hetero.devices()


def test_a_device_pickles_as_its_name():
    cpu = hetero.device("cpu")
    assert pickle.loads(pickle.dumps(cpu)) is cpu


def test_device_of_costs_about_a_microsecond_once_seen():
    x = torch.zeros(1)
    device_of(x)
    best = min(timeit.repeat(lambda: device_of(x), number=20_000, repeat=7)) / 20_000
    assert best < 5e-6  # 0.6 to 0.9 measured; the slack is for a machine that is busy


@pytest.mark.parametrize(
    "vendor, looked_for", [("ascend", "torch_npu"), ("metax", "/dev/mxcd"), ("biren", "torch_supa")]
)
def test_a_vendor_that_is_not_here_is_an_error_with_evidence_and_a_way_out(vendor, looked_for):
    with pytest.raises(BackendError) as caught:
        hetero.device(vendor)
    message = str(caught.value)
    assert looked_for in message and "to use it:" in message and "usable here: cpu" in message


def test_the_environment_variable_is_an_explicit_choice_too(monkeypatch):
    monkeypatch.setenv("HETERO_BACKEND", "ascend")
    with pytest.raises(BackendError, match="'ascend' cannot be used here"):
        hetero.device()
    monkeypatch.setenv("HETERO_BACKEND", "cpu")
    assert hetero.device().vendor == "cpu"
    assert "HETERO_BACKEND=cpu" in hetero.device().explain()


@pytest.mark.parametrize(
    "spec, message",
    [
        ("asend", "did you mean 'ascend'"),
        ("npu", "say 'ascend'"),
        ("nvidia", "say 'cuda'"),
        ("supa", "say 'biren'"),
        ("toaster", "Installed: ascend, biren, cpu, cuda, metax"),
    ],
)
def test_an_unknown_vendor(spec, message):
    with pytest.raises(BackendError, match=message):
        hetero.device(spec)


@pytest.mark.parametrize("spec", ["", "cpu:", "cpu:-1", "cpu:x", "cpu:0:0", "a b"])
def test_a_spec_that_makes_no_sense(spec):
    with pytest.raises(DeviceError, match="VENDOR:INDEX"):
        hetero.device(spec)


def test_an_index_out_of_range():
    with pytest.raises(DeviceError, match="cpu:7 does not exist: there is 1"):
        hetero.device("cpu:7")


def test_device_of_something_else():
    with pytest.raises(DeviceError, match="'meta'"):
        device_of(torch.empty(1, device="meta"))
    with pytest.raises(TypeError, match="got int"):
        device_of(3)


# -- made-up machines
def test_specific_beats_generic_beats_the_cpu(plugins, fake):
    plugins(fake("cuda", GENERIC), fake("metax", SPECIFIC))
    assert str(hetero.device()) == "metax:0"
    assert device_of(torch.device("cuda:1")).vendor == "metax"
    assert [str(d) for d in hetero.devices()] == ["metax:0", "metax:1", "cpu:0"]
    assert "before cpu, cuda" in hetero.device().explain()


def test_a_backend_without_devices_is_passed_over(plugins, fake):
    plugins(fake("cuda", GENERIC), fake("ascend", SPECIFIC, count=0, torch_types=("xpu",)))
    assert hetero.device().vendor == "cuda"


def test_no_accelerator_means_the_cpu_and_says_so(plugins, fake):
    plugins(fake("cuda", GENERIC, count=0))
    assert hetero.device().vendor == "cpu"
    assert "no accelerator was found" in hetero.device().explain()


def test_a_tie_is_an_error_that_names_both_and_the_variable(plugins, fake, monkeypatch):
    plugins(fake("metax", SPECIFIC), fake("clone", SPECIFIC))
    for call in (hetero.device, lambda: device_of(torch.device("cuda:0"))):
        with pytest.raises(
            BackendError, match=r"'clone' and 'metax'.*HETERO_BACKEND=clone or HETERO_BACKEND=metax"
        ):
            call()
    monkeypatch.setenv("HETERO_BACKEND", "metax")
    assert hetero.device().vendor == "metax"
    assert device_of(torch.device("cuda:0")).vendor == "metax"


def test_a_placeholder_is_taken_only_by_name(plugins, fake):
    plugins(fake("acme", PLACEHOLDER))
    assert hetero.device().vendor == "cpu"
    assert hetero.device("acme").vendor == "acme"


def test_one_accelerator_a_process(plugins, fake):
    plugins(fake("ascend", torch_types=("xpu",)), fake("cuda"))
    assert hetero.device("cuda").vendor == "cuda"
    with pytest.raises(DeviceError, match=r"already runs on 'cuda'.*'ascend' needs a process of its own"):
        hetero.device("ascend")
    assert hetero.device("cpu").vendor == "cpu"
    assert hetero.device().vendor == "cuda"


def test_index_out_of_range_of_an_accelerator(plugins, fake, monkeypatch):
    plugins(fake("cuda", count=2))
    with pytest.raises(DeviceError, match="cuda:7 does not exist: there are 2 \\(cuda:0 to cuda:1\\)"):
        hetero.device("cuda:7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    plugins(fake("other", count=0, visible_devices_env=("CUDA_VISIBLE_DEVICES",)))
    with pytest.raises(DeviceError, match="no device is visible \\(CUDA_VISIBLE_DEVICES=''\\)"):
        hetero.device("other:0")


def test_a_broken_plugin_is_an_error_only_for_who_asks_for_it(plugins, fake):
    plugins(fake("acme", SPECIFIC, state="broken"))
    assert hetero.device().vendor == "cpu"
    with pytest.raises(BackendError, match=r"'acme'.*is broken: it does not start"):
        hetero.device("acme")


def test_a_vendor_package_that_does_not_load_is_an_error_not_the_cpu(plugins, fake):
    class Missing(fake):
        def load(self):
            raise OSError("libascendcl.so: cannot open shared object file")

    plugins(Missing("ascend", SPECIFIC))
    with pytest.raises(BackendError, match=r"libascendcl.so.*HETERO_BACKEND=cpu"):
        hetero.device()


def test_a_backend_is_loaded_once(plugins, fake):
    backend = fake("cuda")
    plugins(backend)
    hetero.device("cuda:0"), hetero.device("cuda:1"), hetero.device()
    assert backend.loads == 1


def test_a_bare_torch_device_means_the_current_one_each_time(plugins, fake):
    backend = fake("cuda")
    current = [0]
    backend.fake.is_initialized = lambda: True
    backend.fake.current_device = lambda: current[0]
    plugins(backend)
    assert str(device_of(torch.device("cuda"))) == "cuda:0"
    current[0] = 1
    assert str(device_of(torch.device("cuda"))) == "cuda:1"


def test_no_context_is_made_to_find_the_current_device(plugins, fake):
    backend = fake("cuda")
    backend.fake.is_initialized = lambda: False
    plugins(backend)
    assert hetero.device("cuda").index == 0  # current_device() does not even exist here


def test_nothing_is_written_to_the_environment(plugins, fake):
    before = dict(os.environ)
    plugins(fake("cuda"))
    hetero.device("cuda")
    assert dict(os.environ) == before
