"""Who is who: every machine on which one vendor looks like another."""

import importlib
import time

import pytest

NAMES = ("cpu", "cuda", "ascend", "metax", "biren")


def backend(name):
    return importlib.import_module(f"hetero.backends.{name}").backend


def found(machine):
    """Names of the backends that say "found", by rank."""
    probes = {name: backend(name).probe(machine.host()) for name in NAMES}
    return sorted((n for n, p in probes.items() if p.state == "found"), key=lambda n: -probes[n].score)


def conflicts(machine, name):
    return " ".join(backend(name).probe(machine.host()).conflicts)


def test_a_laptop_with_the_cpu_build(machine):
    machine.torch("2.13.0+cpu")
    assert found(machine) == ["cpu"]


def test_a_laptop_with_the_cuda_build_and_no_driver(machine):
    machine.torch("2.13.0+cu128", cuda="12.8")
    assert found(machine) == ["cpu"]


def test_nvidia(machine):
    machine.torch("2.13.0+cu128", cuda="12.8")
    machine.nvidia()
    assert found(machine) == ["cuda", "cpu"]
    probe = backend("cuda").probe(machine.host())
    assert probe.versions == {"torch": "2.13.0+cu128", "cuda": "12.8", "driver": "550.54.15"}
    assert any("/dev/nvidia0" in line for line in probe.evidence)


def test_nvidia_driver_with_a_cpu_build_says_what_to_install(machine):
    machine.torch("2.13.0+cpu")
    machine.nvidia()
    probe = backend("cuda").probe(machine.host())
    assert probe.state == "absent" and "not a CUDA build" in probe.evidence[0]
    assert "CUDA build" in probe.install


def test_rocm_is_not_nvidia(machine):
    machine.torch("2.13.0+rocm6.4", cuda="12.8", hip="6.4")
    machine.nvidia()
    assert found(machine) == ["cpu"] and "ROCm" in conflicts(machine, "cuda")


def test_metax_whose_torch_is_cuda_11_6(machine):
    machine.torch("2.8.0+metax3.7.2.0", cuda="11.6")
    machine.file("/dev/mxcd")
    machine.file("/opt/maca/Version.txt", "Version:3.7.2.0\n")
    machine.nvidia()  # even with every trace of NVIDIA around
    assert found(machine) == ["metax", "cpu"]
    assert "MetaX's build" in conflicts(machine, "cuda")
    assert backend("metax").probe(machine.host()).versions["maca"] == "3.7.2.0"


def test_metax_with_a_masked_version_is_known_by_its_fork(machine):
    machine.torch("2.8.0", cuda="11.6", fork="MACA_HOME = os.getenv('MACA_PATH')\n")
    machine.file("/opt/mxdriver/bin/mx-smi")
    assert found(machine) == ["metax", "cpu"]


def test_metax_machine_whose_torch_was_replaced(machine):
    machine.torch("2.13.0+cu128", cuda="12.8")
    machine.file("/dev/mxcd")
    assert found(machine) == ["cpu"]
    assert "was it replaced?" in conflicts(machine, "metax")


def test_metax_build_on_a_machine_without_the_card(machine):
    machine.torch("2.8.0+metax3.7.2.0", cuda="11.6")
    assert found(machine) == ["cpu"]


def test_metax_visible_devices_that_differ(machine):
    machine.torch("2.8.0+metax3.7.2.0", cuda="11.6")
    machine.file("/dev/mxcd")
    machine.env.update(MACA_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="1")
    assert "the former wins" in conflicts(machine, "metax")
    machine.env.update(CUDA_VISIBLE_DEVICES="0")
    assert not conflicts(machine, "metax")


def test_biren_br2xx_which_answers_for_torch_cuda(machine):
    machine.torch("2.9.0+cpu")
    machine.package("torch_supa", "1.0.0.20900+br2xx")
    machine.file("/dev/biren/card_0")
    assert found(machine) == ["biren", "cpu"]
    assert "torch_supa replaces torch.cuda" in conflicts(machine, "cuda")


def test_biren_br2xx_beside_an_nvidia_card_takes_torch_cuda_from_it(machine):
    machine.torch("2.9.0+cu128", cuda="12.8")
    machine.nvidia()
    machine.package("torch_supa", "1.0.0.20900+br2xx")
    machine.file("/dev/biren/card_0")
    assert found(machine) == ["biren", "cpu"]
    machine.env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # then nothing is spoofed, unless it was already
    assert found(machine) == ["biren", "cuda", "cpu"]
    machine.modules.add("torch_supa.contrib.transfer_to_supa")
    assert found(machine) == ["biren", "cpu"]


def test_biren_br1xx_on_a_cuda_build_of_torch(machine):
    machine.torch("2.9.0+cu128", cuda="12.8")
    machine.package("torch_br", "1.10.0.20900+br1xx")
    machine.file("/usr/local/birensupa/sdk/latest/x")
    assert found(machine) == ["biren", "cpu"]
    machine.nvidia()
    machine.modules.add("torch_br.contrib.transfer_to_supa")
    assert found(machine) == ["biren", "cpu"]
    assert "transfer_to_supa is loaded" in conflicts(machine, "biren")


def test_both_biren_packages_are_one_too_many(machine):
    machine.torch("2.9.0+cpu")
    machine.package("torch_br", "1.10.0.20900+br1xx")
    machine.package("torch_supa", "1.0.0.20900+br2xx")
    machine.file("/dev/biren/card_0")
    probe = backend("biren").probe(machine.host())
    assert probe.state == "broken" and "uninstall one" in probe.error


def test_biren_package_without_driver_or_sdk(machine):
    machine.torch("2.9.0+cpu")
    machine.package("torch_supa", "1.0.0.20900+br2xx")
    probe = backend("biren").probe(machine.host())
    assert probe.state == "broken" and "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in probe.error


def test_ascend(machine):
    machine.torch("2.10.0+cpu")
    machine.package("torch_npu", "2.10.0.post2", "torch-npu")
    machine.file("/opt/cann/lib64/libascendcl.so")
    machine.file("/opt/cann/x86_64-linux/ascend_toolkit_install.info", "package_name=x\nversion=9.1.0\n")
    machine.file("/dev/davinci0")
    machine.env.update(ASCEND_HOME_PATH="/opt/cann", LD_LIBRARY_PATH="/opt/cann/lib64")
    assert found(machine) == ["ascend", "cpu"]
    probe = backend("ascend").probe(machine.host())
    assert probe.versions == {"torch": "2.10.0+cpu", "torch_npu": "2.10.0.post2", "cann": "9.1.0"}
    assert not probe.conflicts


def test_ascend_whose_environment_was_not_sourced(machine):
    machine.torch("2.10.0+cpu")
    machine.package("torch_npu", "2.10.0", "torch-npu")
    machine.file("/usr/local/Ascend/ascend-toolkit/latest/lib64/libascendcl.so")
    assert found(machine) == ["ascend", "cpu"]
    assert "source set_env.sh" in conflicts(machine, "ascend")


def test_torch_npu_without_cann_breaks_import_torch_and_the_probe_says_so(machine):
    machine.torch("2.13.0+cpu")
    machine.package("torch_npu", "2.13.0", "torch-npu")
    probe = backend("ascend").probe(machine.host())
    assert probe.state == "broken"
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in probe.error and "pip uninstall torch-npu" in probe.error


def test_torch_npu_for_another_torch(machine):
    machine.torch("2.13.0+cpu")
    machine.package("torch_npu", "2.6.0.post5", "torch-npu")
    machine.file("/usr/lib64/libascendcl.so")
    assert "another torch than 2.13.0+cpu" in conflicts(machine, "ascend")


@pytest.mark.parametrize("how", ["loaded", "by environment"])
def test_transfer_to_npu_is_not_nvidia(machine, how):
    machine.torch("2.10.0+cu128", cuda="12.8")
    machine.nvidia()
    machine.package("torch_npu", "2.10.0", "torch-npu")
    machine.file("/usr/lib64/libascendcl.so")
    if how == "loaded":
        machine.modules.add("torch_npu.contrib.transfer_to_npu")
    else:
        machine.env["TORCH_TRANSFER_TO_NPU"] = "1"
    assert found(machine) == ["ascend", "cpu"]
    assert "transfer_to_npu" in conflicts(machine, "cuda") and "turn it off" in conflicts(machine, "ascend")


def test_no_torch_at_all_breaks_no_probe(machine):
    assert found(machine) == ["cpu"]


@pytest.mark.parametrize("name", NAMES)
def test_a_probe_is_quick_and_says_what_it_looked_for(machine, name):
    machine.torch("2.13.0+cpu")
    best = 1.0
    for _ in range(3):
        start = time.perf_counter()
        probe = backend(name).probe(machine.host())
        best = min(best, time.perf_counter() - start)
    assert best < 0.2
    assert probe.evidence and (probe.state == "found" or probe.install)


@pytest.mark.parametrize("name", NAMES)
def test_level_0_of_the_plugin_as_this_machine_is(name):
    from hetero.conform import level0

    results = level0.run(backend(name))
    assert not level0.failures(results), "\n".join(map(str, level0.failures(results)))
    assert sum(r.status == "pass" for r in results) >= 7
