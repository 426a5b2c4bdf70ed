"""What spawned ranks do in the fault tests. Each returns what its rank saw: error type, fields, time."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch

import hetero
from hetero.comm import CollectiveTimeout, CommError, Communicator, PeerLost


def _report(error: CommError) -> dict[str, Any]:
    fields = ("rank", "ranks", "call", "sequence", "missing", "sides", "facts", "why")
    told = {name: getattr(error, name) for name in fields if hasattr(error, name)}
    doing = {str(rank): text for rank, text in getattr(error, "doing", {}).items()}
    return {"error": type(error).__name__, "message": str(error), "at": time.time(), **told, "doing": doing}


def _until_it_fails(c: Communicator) -> dict[str, Any]:
    """all_reduce until an error comes; the same error must come again on the next call, at once."""
    try:
        while True:
            c.all_reduce(torch.ones(1000))
    except (PeerLost, CollectiveTimeout) as error:
        report = _report(error)
        begin = time.monotonic()
        try:
            c.barrier()
        except CommError as again:
            report["again"] = type(again) is type(error) and str(again) == str(error)
        report["again_seconds"] = time.monotonic() - begin
        return report


def killed(victim: int) -> dict[str, Any]:
    c = hetero.comm.init(timeout=30)
    c.all_reduce(torch.ones(3))
    if c.rank == victim:
        print(time.time(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    report = _until_it_fails(c)
    c.close()
    return report


def killed_while_awaited_in_a_message() -> dict[str, Any]:
    c = hetero.comm.init(timeout=30)
    if c.rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        c.recv(torch.ones(3), 1)
    except CommError as error:
        return _report(error)
    return {}


def killed_in_a_backward() -> dict[str, Any]:
    c = hetero.comm.init(timeout=30)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1), process_group=c.group)
    try:
        for step in range(100):
            if c.rank == 1 and step == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            with c.guard(f"backward of step {step}"):
                model(torch.ones(2, 3)).sum().backward()
    except CommError as error:
        return _report(error)
    return {}


def stopped_then_continued(seconds: float) -> dict[str, Any]:
    c = hetero.comm.init(timeout=seconds)
    c.all_reduce(torch.ones(3))
    if c.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            c.all_reduce(torch.ones(3))  # awake again, and too late
        except CommError as error:
            return _report(error)
        return {}
    report = _until_it_fails(c)
    if c.rank == 0:
        os.kill(int(c.job.facts[1]["pid"]), signal.SIGCONT)
    time.sleep(2)  # the woken rank hears the verdict, not that we are gone
    return report


def stays_away(seconds: float) -> dict[str, Any]:
    c = hetero.comm.init(timeout=seconds)
    c.all_reduce(torch.ones(3))
    c.broadcast(torch.ones(2))
    if c.rank == 1:
        time.sleep(seconds + 4)
        try:
            c.all_reduce(torch.ones(1000))
        except CommError as error:
            return _report(error)
        return {}
    report = _until_it_fails(c)
    time.sleep(5)
    return report


def raises() -> dict[str, Any]:
    seen: dict[str, Any] = {}
    try:
        with hetero.comm.init(timeout=30) as c:
            c.all_reduce(torch.ones(3))
            if c.rank == 1:
                raise ValueError("the learning rate is a fish")
            c.all_reduce(torch.ones(3))
    except (ValueError, CommError) as error:
        seen = _report(error) if isinstance(error, CommError) else {"error": type(error).__name__}
    return seen


def fakes(rank: int, fact: str) -> dict[str, Any]:
    odd = os.environ["RANK"] == str(rank)
    if odd and fact == "hetero":
        hetero.__version__ = "9.4.1"
    if odd and fact == "torch":
        torch.__version__ = "2.99.0"
    try:
        hetero.comm.init(timeout=30, check=not (odd and fact == "check"))
    except CommError as error:
        return _report(error)
    return {}


def only_arrives(seconds: float) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        hetero.comm.init("cpu", timeout=seconds).close()
    except CommError as error:
        return {**_report(error), "seconds": time.monotonic() - begin}
    return {}
