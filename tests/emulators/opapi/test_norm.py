from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def _x(*shape: int, **kw: Any) -> torch.Tensor:
    return numbers(*shape, grad=True, **kw)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layer_norm(dtype: torch.dtype, affine: bool) -> None:
    for shape, inner in (((2, 3, 8), (8,)), ((2, 3, 8), (3, 8)), ((5, 7), (7,))):
        wb = (_x(*inner, dtype=dtype), _x(*inner, dtype=dtype, seed=1)) if affine else (None, None)
        agree(lambda x, w, b, n=inner: F.layer_norm(x, n, w, b), _x(*shape, dtype=dtype), *wb)


def test_layer_norm_strided() -> None:
    agree(lambda x, w, b: F.layer_norm(x.transpose(0, 1), (8,), w, b), _x(2, 3, 8), _x(8), _x(8, seed=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_group_norm(dtype: torch.dtype) -> None:
    agree(
        lambda x, w, b: F.group_norm(x, 3, w, b),
        _x(2, 6, 4, 5, dtype=dtype),
        _x(6, dtype=dtype),
        _x(6, dtype=dtype, seed=1),
        close=(2e-4, 1e-4) if dtype == torch.float32 else (3e-2, 1e-1),
    )


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(training: bool) -> None:
    agree(
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training=training),
        _x(4, 3, 5, 2),
        numbers(3),
        numbers(3).abs() + 0.5,
        _x(3),
        _x(3, seed=1),
        close=(1e-4, 1e-4),
    )


def _vendor(x: torch.Tensor, gamma: torch.Tensor) -> Any:
    import torch_npu

    return torch_npu.npu_rms_norm(x, gamma, 1e-6)


def _expected(x: torch.Tensor, gamma: torch.Tensor) -> Any:
    f = x.float()
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    rstd = torch.rsqrt(f.square().mean(dims, keepdim=True) + 1e-6)
    return (f * rstd * gamma.float()).to(x.dtype), rstd.detach()


@pytest.mark.parametrize(
    ("dtype", "gamma"),
    [(t, t) for t in DTYPES] + [(torch.bfloat16, torch.float32), (torch.float16, torch.float32)],
    ids=str,
)
def test_rms_norm(dtype: torch.dtype, gamma: torch.dtype) -> None:
    agree(_vendor, _x(2, 3, 8, dtype=dtype), _x(8, dtype=gamma), reference=_expected)
    agree(_vendor, _x(2, 3, 8, dtype=dtype), _x(3, 8, dtype=gamma), reference=_expected)


def test_rms_norm_gradient_of_gamma_is_float32() -> None:
    import torch_npu

    x, g = numbers(4, 8).bfloat16().npu(), numbers(8).bfloat16().npu()
    y, rstd = torch_npu.npu_rms_norm(x, g)
    dx, dgamma = torch_npu.npu_rms_norm_backward(torch.ones_like(y), x, g, rstd)
    assert (dx.dtype, dgamma.dtype, rstd.dtype) == (torch.bfloat16, torch.float32, torch.float32)


def test_rms_norm_refuses() -> None:
    for x, gamma in ((torch.float32, torch.bfloat16), (torch.bfloat16, torch.float16)):
        with pytest.raises(RuntimeError, match="gamma is"):
            _vendor(numbers(4, 8).to(x).npu(), numbers(8).to(gamma).npu())[0].cpu()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_add_rms_norm(dtype: torch.dtype) -> None:
    import torch_npu

    a, b, g = (numbers(3, 8, seed=i).to(dtype) for i in range(3))
    g = g[0].contiguous()
    y, rstd, x = torch_npu.npu_add_rms_norm(a.npu(), b.npu(), g.npu(), 1e-6)
    total = a.float() + b.float()
    expected = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(x.cpu(), total.to(dtype))
    torch.testing.assert_close(rstd.cpu(), torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6))
    torch.testing.assert_close(y.cpu(), (expected * g.float()).to(dtype))


def test_add_rms_norm_has_no_derivative() -> None:
    import torch_npu

    a, g = numbers(3, 8).npu().requires_grad_(), numbers(8).npu()
    y, _, _ = torch_npu.npu_add_rms_norm(a, a, g)
    if y.requires_grad:
        with pytest.raises(RuntimeError):
            y.sum().backward()


def test_gemma_rms_norm() -> None:
    import torch_npu

    x, g = numbers(3, 8), numbers(8, seed=1)
    y = torch_npu.npu_gemma_rms_norm(x.npu(), g.npu(), 1e-6)[0]
    torch.testing.assert_close(y.cpu(), _expected(x, g + 1)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_torchs_own_rms_norm(dtype: torch.dtype) -> None:
    agree(lambda x, w: F.rms_norm(x, (8,), w, 1e-6), _x(2, 3, 8, dtype=dtype), _x(8, dtype=dtype))


def test_group_norm_with_silu() -> None:
    def vendor(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
        import torch_npu

        return torch_npu.npu_group_norm_silu(x, w, b, 3)[0]

    agree(
        vendor,
        *(t.detach() for t in (_x(2, 6, 4, 5), _x(6), _x(6, seed=1))),
        reference=lambda x, w, b: F.silu(F.group_norm(x, 3, w, b)),
        close=(1e-4, 1e-4),
    )


def test_group_norm_with_swish() -> None:
    def vendor(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
        import torch_npu

        return torch_npu.npu_group_norm_swish(x, 3, w, b, eps=1e-5, swish_scale=1.5)[0]

    def expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
        y = F.group_norm(x, 3, w, b)
        return y * torch.sigmoid(1.5 * y)

    agree(vendor, _x(2, 6, 4, 5), _x(6), _x(6, seed=1), reference=expected, close=(3e-4, 2e-4))


def test_deep_norm() -> None:
    def vendor(x: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, gamma: torch.Tensor) -> Any:
        import torch_npu

        return torch_npu.npu_deep_norm(x, g, beta, gamma, 0.3, 1e-5)[2]

    agree(
        vendor,
        _x(2, 3, 8),
        _x(2, 3, 8, seed=1),
        _x(8),
        _x(8, seed=1),
        reference=lambda x, g, beta, gamma: F.layer_norm(x * 0.3 + g, (8,), gamma, beta, 1e-5),
    )


def test_parts_of_a_batch_norm_over_ranks() -> None:
    """Two halves of a batch, as two ranks hold them, give what the whole batch gives."""
    x, weight, bias = numbers(6, 3, 4, 5), numbers(3), numbers(3, seed=1)
    eps, momentum = 1e-5, 0.1
    running = [torch.zeros(3).npu(), torch.ones(3).npu()]
    halves = [h.npu() for h in x.split(3)]
    sums, squares = zip(*(torch.ops.npu.batch_norm_reduce(h, eps) for h in halves))
    counts = torch.tensor([60.0, 60.0]).npu()
    mean, invstd = torch.ops.npu.batch_norm_gather_stats_update(
        x.npu(), torch.stack(sums), torch.stack(squares), running[0], running[1], momentum, eps, counts
    )
    whole_mean, whole_var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
    torch.testing.assert_close(mean.cpu(), whole_mean)
    torch.testing.assert_close(invstd.cpu(), torch.rsqrt(whole_var + eps))
    torch.testing.assert_close(running[0].cpu(), momentum * whole_mean)
    torch.testing.assert_close(running[1].cpu(), 1 - momentum + momentum * x.var((0, 2, 3)))
    y = torch.batch_norm_elemt(halves[0], weight.npu(), bias.npu(), mean, invstd, eps)
    torch.testing.assert_close(
        y.cpu(), F.batch_norm(x, None, None, weight, bias, True, 0.1, eps)[:3], rtol=1e-4, atol=1e-4
    )


def test_backward_of_a_batch_norm_over_ranks() -> None:
    x, weight, g = numbers(6, 3, 4, 5, grad=True), numbers(3, grad=True), numbers(6, 3, 4, 5, seed=1)
    eps, d = 1e-5, (0, 2, 3)
    y = F.batch_norm(x, None, None, weight, None, True, 0.1, eps)
    dx, dweight = torch.autograd.grad(y, (x, weight), g)
    mean, invstd = (t.npu() for t in (x.mean(d), torch.rsqrt(x.var(d, unbiased=False) + eps)))
    stats = torch.batch_norm_stats(x.detach().npu(), eps)
    torch.testing.assert_close(stats[0].cpu(), mean.detach().cpu())
    torch.testing.assert_close(stats[1].cpu(), invstd.detach().cpu())
    given = [t.detach().npu() for t in (g, x, mean, invstd, weight)]
    sums, with_x, actual, _ = torch.batch_norm_backward_reduce(*given, True, True, True)
    torch.testing.assert_close(actual.cpu(), dweight, rtol=1e-4, atol=1e-4)
    count = torch.tensor([120], dtype=torch.int32).npu()
    actual = torch.batch_norm_backward_elemt(*given, sums, with_x, count)
    torch.testing.assert_close(actual.cpu(), dx, rtol=1e-4, atol=1e-4)


def test_add_rms_norm_in_place() -> None:
    import torch_npu

    a, b, g = numbers(3, 8), numbers(3, 8, seed=1), numbers(8, seed=2)
    x1, x2 = a.npu(), b.npu()
    torch_npu.npu_add_rms_norm_v2(x1, x2, g.npu(), 1e-6)
    y, _ = _expected(a + b, g)
    torch.testing.assert_close(x1.cpu(), y)
    torch.testing.assert_close(x2.cpu(), a + b)


def test_add_rms_norm_with_a_float32_copy() -> None:
    import torch_npu

    a, b, g = (t.half() for t in (numbers(3, 8), numbers(3, 8, seed=1), numbers(8, seed=2)))
    wide, y, _, x = torch_npu.npu_add_rms_norm_cast(a.npu(), b.npu(), g.npu(), 1e-6)
    torch.testing.assert_close(wide.cpu(), y.cpu().float())
    torch.testing.assert_close(x.cpu(), a + b)


def test_add_layer_norm() -> None:
    import torch_npu

    a, b, w, beta = numbers(3, 8), numbers(3, 8, seed=1), numbers(8), numbers(8, seed=1)
    y, _, _, x = torch_npu.npu_add_layer_norm(a.npu(), b.npu(), w.npu(), beta.npu(), 1e-5, True)
    torch.testing.assert_close(y.cpu(), F.layer_norm(a + b, (8,), w, beta, 1e-5))
    torch.testing.assert_close(x.cpu(), a + b)
