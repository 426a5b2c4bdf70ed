import subprocess
import sys
from pathlib import Path

from hetero.accelerator.host import Host


def test_packages_are_located_by_metadata_and_never_imported(tmp_path):
    package = tmp_path / "torch_acme"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('a probe must not import this')")
    (tmp_path / "torch_acme-1.2.3+acme.dist-info").mkdir()
    (tmp_path / "torch_acme-1.2.3+acme.dist-info" / "METADATA").write_text(
        "Name: torch_acme\nVersion: 1.2.3+acme\n"
    )
    (tmp_path / "bare.py").write_text("")
    host = Host(search=[str(tmp_path)])
    assert host.package("torch_acme") == "1.2.3+acme"
    assert host.package("bare") == "?"
    assert host.package("torch_other") is None


def test_metadata_without_the_package_is_not_a_package(tmp_path):
    (tmp_path / "torch_acme-1.0.dist-info").mkdir()
    (tmp_path / "torch_acme-1.0.dist-info" / "METADATA").write_text("Name: torch_acme\nVersion: 1.0\n")
    assert Host(search=[str(tmp_path)]).package("torch_acme") is None


def test_torch_facts_come_from_the_file_whatever_is_in_memory(monkeypatch):
    import torch

    truth = torch.version.cuda
    monkeypatch.setattr(torch.version, "cuda", "99.9")  # what torch_supa does
    host = Host.here()
    assert host.torch["cuda"] == truth
    assert host.torch_version == torch.__version__


def test_without_torch_the_facts_are_empty(tmp_path):
    host = Host(search=[str(tmp_path)])
    assert host.torch_version == "" and not host.torch.get("cuda") and host.torch_source("version.py") == ""


def test_files_below_a_root(tmp_path):
    for name in ("dev/card_1", "dev/card_0", "opt/bin/tool", "lib/libx.so", "usr/lib64/liby.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    host = Host(root=tmp_path, env={"PATH": "/nowhere:/opt/bin", "LD_LIBRARY_PATH": "/lib"})
    assert host.glob("/dev/card_*") == ["/dev/card_0", "/dev/card_1"]
    assert host.which("tool") == "/opt/bin/tool" and host.which("other") is None
    assert host.library("libx.so") == "/lib/libx.so"
    assert host.library("liby.so") == "/usr/lib64/liby.so"
    assert host.library("libz.so", "/opt/z") is None
    assert host.read("/dev/card_0") == "dev/card_0" and host.read("/dev/card_9") is None


def test_importing_hetero_and_probing_imports_neither_torch_nor_a_vendor_package():
    code = (
        "import sys, hetero\n"
        "heavy = {'torch', 'torch_npu', 'torch_supa', 'torch_br', 'triton', 'numpy', 'typer'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "from hetero.accelerator import registry\n"
        "states = {r.name: r.probe.state for r in registry.records()}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "print(sorted(states))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=Path.home()
    )
    assert done.returncode == 0, done.stderr
    for name in ("ascend", "biren", "cpu", "cuda", "metax"):
        assert f"'{name}'" in done.stdout
