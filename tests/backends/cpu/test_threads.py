"""Torch's own threads: as many as torch was told, the same bits every time, safe after fork and inside autograd."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from hetero.backends.cpu import glu, linear_loss, loss, norm, optim

IGNORED = -100


def work(generator_seed: int = 0, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """A bit of everything, large enough for two threads."""
    g = torch.Generator().manual_seed(generator_seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g).to(dtype)

    x, w, gy = draw(300, 257), draw(257), draw(300, 257)
    y, rstd = norm.rms_norm(x, w, 1e-6, 0.0, "llama")
    out = [y, *norm.rms_norm_backward(gy, x, w, rstd, 0.0, "llama")]
    out += [glu.swiglu(x, gy), *glu.swiglu_backward(gy, x, gy)]
    labels = torch.randint(0, 257, (300,), generator=g)
    rows, lse = loss.cross_entropy(x, labels, IGNORED, 0.1, 1e-3, 0.0)
    out += [rows, loss.cross_entropy_backward(rows, x, labels, lse, IGNORED, 0.1, 1e-3, 0.0)]
    h, big = draw(300, 16), draw(257, 16)
    out += linear_loss.fused_linear_cross_entropy(
        h, big, None, labels, torch.ones(300), IGNORED, 0.0, 0.0, 0.0, True, True
    )
    grads = [gy.clone(), w.clone()]
    out += [optim.clip_grad_norm(grads, 1.0), *grads]
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_same_bits_every_time(isa: str, threads: int, dtype: torch.dtype) -> None:
    first = work(dtype=dtype)
    for _ in range(3):
        assert all(map(torch.equal, work(dtype=dtype), first))


def test_thread_count_changes_only_the_order_of_column_sums(kernels: ModuleType) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = work()
        torch.set_num_threads(2)
        two = work()
    finally:
        torch.set_num_threads(before)
    for i, (a, b) in enumerate(zip(one, two)):
        if i == 2 or 8 <= i < 14:  # dweight, and what torch's own matrix products made
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        else:
            assert torch.equal(a, b), i


def busy_threads(fn: Callable[[], object]) -> int:
    """Threads of this process that used the processor while ``fn`` ran several times."""

    def ticks() -> dict[str, int]:
        tasks = os.listdir("/proc/self/task")
        return {t: int(Path(f"/proc/self/task/{t}/schedstat").read_text().split()[0]) for t in tasks}

    before = ticks()
    for _ in range(20):
        fn()
    after = ticks()
    return sum(after[t] - before.get(t, 0) > 2_000_000 for t in after)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux's schedstat")
def test_uses_as_many_threads_as_torch_was_told(kernels: ModuleType, threads: int) -> None:
    if not kernels.openmp() and threads > 1:
        pytest.skip("torch brought no OpenMP runtime")
    a = torch.randn(512, 2048)
    glu.geglu(a, a, "none")
    # A thread of the pool still spins for a while after earlier work, so more than one look is taken.
    seen = [busy_threads(lambda: glu.geglu(a, a, "none")) for _ in range(5)]
    assert threads in seen, seen


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
def test_no_second_openmp_runtime() -> None:
    """In a fresh process: the kernels run on the one runtime that torch brought, and load no other."""
    code = (
        "import re, torch\n"
        "def runtimes():\n"
        "    return {l.split()[-1] for l in open('/proc/self/maps') if re.search(r'lib(g|i|)omp', l)}\n"
        "before = runtimes()\n"
        "from hetero.backends.cpu import glu, native\n"
        "torch.set_num_threads(2)\n"
        "a = torch.randn(512, 512); glu.swiglu(a, a)\n"
        "assert runtimes() == before, (runtimes(), before)\n"
        "used = native.kernels().openmp()\n"
        "assert not before or used in before, (used, before)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.timeout(60)
def test_a_forked_child_does_not_hang(kernels: ModuleType) -> None:
    """The parent's OpenMP threads do not exist in the child; waiting for them would never end."""
    code = (
        "import os, torch\n"
        "from hetero.backends.cpu import glu, native\n"
        "torch.set_num_threads(2)\n"
        "a = torch.randn(512, 512)\n"
        "want = glu.swiglu(a, a)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    y = torch.empty(512, 512)\n"
        "    p = a.data_ptr()\n"
        "    native.kernels().glu(512, 512, p, 512, p, 512, 0, 0, (2 << 8) | 32, 0, y.data_ptr(), 0, 0, 2)\n"
        "    os._exit(0 if (y.numpy() == want.numpy()).all() else 3)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_from_several_threads_at_once(kernels: ModuleType) -> None:
    """Calls give up the GIL and share the pool."""
    want = work(7)
    results: list[list[Tensor]] = []
    pool = [threading.Thread(target=lambda: results.append(work(7))) for _ in range(4)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    assert len(results) == 4
    for got in results:
        for a, b in zip(got, want):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
