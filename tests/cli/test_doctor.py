import json
import os
import subprocess
import sys

import pytest

from hetero.cli.doctor import doctor


def test_the_tables_show_every_backend_its_evidence_and_the_kernels(capsys):
    doctor()
    out = capsys.readouterr().out
    for part in (
        "ascend",
        "biren",
        "metax",
        "cuda",
        "cpu:0",
        "to use it: an NVIDIA driver",
        "--device=cpu",
        "torch_npu",
        "rms_norm",
    ):
        assert part in out
    assert "default device: " in out and "\x1b" not in out


def test_json(capsys):
    doctor(json=True)
    report = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in report["backends"]} >= {"cpu", "cuda", "ascend", "metax", "biren"}


@pytest.fixture
def torch_npu_without_cann(tmp_path):
    """A package that, like torch_npu without CANN, makes ``import torch`` raise."""
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").write_text(
        "raise ImportError('libhccl.so: cannot open shared object')\n"
    )
    info = tmp_path / "torch_npu-2.13.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.13.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    env = {k: v for k, v in os.environ.items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    env["PYTHONPATH"] = str(tmp_path)

    def run(code):
        return subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=240, cwd=tmp_path
        )

    return run


def test_doctor_works_where_import_torch_raises_and_says_what_to_do(torch_npu_without_cann):
    plain = torch_npu_without_cann("import torch")
    assert plain.returncode != 0 and "libhccl.so" in plain.stderr, "the trap itself is gone"
    done = torch_npu_without_cann("from hetero.cli.doctor import doctor; doctor()")
    assert done.returncode == 0, done.stderr
    out = " ".join(done.stdout.split())
    assert "a plain `import torch` loads torch_npu and raises" in out
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in out and "pip uninstall torch-npu" in out
    assert "rms_norm" in out, "the rest of the report is there all the same"
