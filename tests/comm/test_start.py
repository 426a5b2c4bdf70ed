from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

import hetero
from hetero.comm import CommError, start
from hetero.comm.environment import Place
from tests.multiprocess import free_port, spawn


def opens_twice() -> list[str]:
    said = []
    with hetero.comm.init(timeout=30) as first:
        assert dist.is_initialized() and first.group is dist.group.WORLD
        try:
            hetero.comm.init()
        except CommError as error:
            said.append(str(error))
        part = first.subgroup(range(first.world_size))
        first.barrier()
    assert part is not None
    part.close()
    assert not dist.is_initialized()
    return said


def test_a_second_communicator_is_refused_while_the_first_is_open() -> None:
    for outcome in spawn(opens_twice, 2, timeout=60):
        assert len(outcome.result) == 1 and "already has a process group" in outcome.result[0]
        assert outcome.err == ""


def one_after_another() -> list[float]:
    sums = []
    for round in range(3):
        with hetero.comm.init("cpu", timeout=30) as comm:
            tensor = torch.full((2,), float(round))
            comm.all_reduce(tensor)
            sums.append(tensor.sum().item())
    return sums


def test_a_job_may_open_one_communicator_after_another() -> None:
    for outcome in spawn(one_after_another, 2, timeout=60):
        assert outcome.result == [0.0, 4.0, 8.0] and outcome.err == ""


def test_one_rank_under_a_launcher_has_a_process_group() -> None:
    (outcome,) = spawn(opens_twice, 1, timeout=60)
    assert len(outcome.result) == 1 and outcome.err == ""


def test_no_launcher_means_no_socket_and_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket", None)
    with hetero.comm.init("cpu") as comm:
        assert comm.group is None and not dist.is_initialized()
        comm.barrier()


@pytest.mark.parametrize(
    ("spec", "index"),
    [(None, 1), ("chip", 1), ("chip:0", 0), (torch.device("meta"), 1), (torch.device("meta", 2), 2)],
)
def test_the_local_rank_is_the_index_unless_one_was_given(
    monkeypatch: pytest.MonkeyPatch, spec: str | torch.device | None, index: int
) -> None:
    chosen = []

    class Module:
        set_device = staticmethod(chosen.append)

    def device(spec: object) -> SimpleNamespace:
        text = str(spec)
        number = int(text.rpartition(":")[2]) if ":" in text else 0
        return SimpleNamespace(type="chip", vendor="chip", index=number, module=Module)

    monkeypatch.setattr(hetero, "device", device)
    assert start._device(spec, Place(5, 8, 1, "localhost", 1)).index == index
    assert chosen == [index]


def test_a_device_that_is_not_there_is_named_before_any_rendezvous(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(hetero.errors.DeviceError, match="cpu:7 does not exist"):
        hetero.comm.init("cpu:7")


_ELASTIC = """
import os, signal, torch, hetero
with hetero.comm.init(timeout=60) as comm:
    total = comm.all_reduce(torch.ones(1)).item()
    if comm.rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()
    open(os.environ["TO"] + str(comm.rank), "w").write(str(total))
"""


@pytest.mark.slow
def test_torchrun_starts_and_restarts_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "job.py"
    script.write_text(_ELASTIC)
    monkeypatch.setenv("TO", str(tmp_path / "rank"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1"]
    ended = subprocess.run(
        [*torchrun, f"--master-port={free_port()}", str(script)], capture_output=True, text=True, timeout=240
    )
    assert ended.returncode == 0, ended.stderr
    assert [(tmp_path / f"rank{rank}").read_text() for rank in (0, 1)] == ["2.0", "2.0"]
    assert "PeerLost" in ended.stderr
