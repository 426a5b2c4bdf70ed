"""The same kernels on emulated Ascend devices, on torch_npu's own tensors and streams."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from hetero.backends.ascend import ascendc, ascendc_glu
from hetero.conform import ops as conform
from hetero.ops import registry

# Each task of a stream waits a little, so that a kernel which did not wait for its inputs would read them too early.
pytestmark = pytest.mark.emulated("ascend", env={"HETERO_CANN_DELAY": "300"})


def moved(args: tuple[Any, ...], device: str) -> list[Any]:
    return [a.to(device) if isinstance(a, Tensor) else a for a in args]


@pytest.mark.parametrize("op", sorted(i.op for i in ascendc.implementations("test")))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_like_the_reference(op: str, dtype: torch.dtype, generator: torch.Generator) -> None:
    (impl,) = (i for i in ascendc.ascendc_ops() if i.op == op)
    declared = registry.op(op)
    assert declared.backward is not None
    for sample in declared.samples(torch.device("cpu"), dtype, generator):
        plain = conform._results(declared.forward, declared.forward.reference, sample.args)
        upstream = [torch.randn(t.shape, generator=generator).to(t) for t in plain[: declared.public]]
        backward = declared.backward_args(sample.args, plain, upstream)
        for pass_, args in ((declared.forward, sample.args), (declared.backward, backward)):

            def on_npu(*given: Any, direction: str = pass_.direction) -> tuple[Tensor, ...]:
                out = impl.load(direction)(*moved(given, "npu"))
                return tuple(t.cpu() for t in (out if isinstance(out, tuple) else (out,)))

            _, problem = conform._compare(declared, pass_, on_npu, args)
            assert not problem, f"{pass_.direction} {sample.name}: {problem}"


def test_in_order_with_torch_on_every_stream() -> None:
    """torch_npu holds its own work back in a queue; a kernel comes after what was asked for before it."""
    exact = F.silu(torch.tensor(2.0)) * 2
    side = torch.npu.Stream()
    for stream in (torch.npu.current_stream(), side):
        with torch.npu.stream(stream):
            for i in range(20):  # without waiting for the queue about one in eight is wrong
                x = torch.ones(8, 1000, device="npu")
                y = ascendc_glu.swiglu(x * 2, x + 1)
                z = y + i
                torch.testing.assert_close(z.cpu(), (exact + i).expand(8, 1000))


def test_cores_are_the_devices_own() -> None:
    where = ascendc.place(torch.ones(1, device="npu"))
    assert where.cores == torch.npu.get_device_properties(0).vector_core_num == 48
    assert where.stream == torch.npu.current_stream().npu_stream
    assert where.unified_buffer == ascendc.UNIFIED_BUFFER


def test_host_memory_is_refused() -> None:
    x, host = torch.ones(1, 8, device="npu"), torch.ones(1, 8)
    with pytest.raises(RuntimeError, match='hetero_swiglu: "up" is host memory'):
        ascendc.kernels().swiglu(
            ascendc.place(x), 1, 8, x.data_ptr(), 8, host.data_ptr(), 8, 0, 0, 544, x.data_ptr(), 0, 0
        )


@pytest.mark.emulated(
    "ascend", env={"HETERO_CANN_DELAY": "1"}
)  # a process of its own: the device is not usable after
def test_a_broken_rule_comes_back_from_the_next_synchronisation() -> None:
    x = torch.ones(1, 16384, device="npu")
    place = ascendc.place(x)._replace(cores=1, unified_buffer=400 * 1024)
    ascendc.kernels().swiglu(
        place, 1, 16384, x.data_ptr(), 16384, x.data_ptr(), 16384, 0, 0, 544, x.data_ptr(), 0, 0
    )
    with pytest.raises(RuntimeError, match="507015.*(.|\n)*the unified buffer is full"):
        torch.npu.synchronize()
