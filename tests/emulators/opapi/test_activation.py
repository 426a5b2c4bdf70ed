"""Activations, forward and backward, and softmax."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.emulators.opapi.against_cpu import agree, numbers
from tests.emulators.opapi.table import Row, check, ran, rows

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

ACTIVATIONS = rows("""
Relu ThresholdBackward           | F  | F.relu(a)
InplaceRelu                      | FI | F.relu_(a)
Threshold ThresholdBackward      | F  | F.threshold(a, 0.3, 2.0)
InplaceThreshold                 | F  | F.threshold_(a, 0.3, 2.0)
Silu SiluBackward                | F  | F.silu(a)
Sigmoid SigmoidBackward          | F  | torch.sigmoid(a)
Sigmoid                          | I  | torch.sigmoid(a)
InplaceSigmoid                   | F  | a.sigmoid_()
Tanh TanhBackward                | F  | torch.tanh(a)
InplaceTanh                      | F  | a.tanh_()
Mish MishBackward                | F  | F.mish(a)
InplaceMish                      | F  | torch._C._nn.mish_(a)
LogSigmoidForward LogSigmoidBackward | F | F.logsigmoid(a)
LeakyRelu LeakyReluBackward      | F  | F.leaky_relu(a, 0.2)
InplaceLeakyRelu                 | F  | F.leaky_relu_(a, 0.2)
Elu EluBackward                  | F  | F.elu(a, 0.7)
Elu EluBackward                  | F  | F.selu(a)
InplaceElu                       | F  | F.elu_(a, 0.7)
Celu                             | F  | torch.celu(a, 0.7)
InplaceCelu                      | F  | torch.celu_(a, 0.7)
Hardtanh HardtanhBackward        | F  | F.hardtanh(a, -0.5, 0.7)
InplaceHardtanh                  | F  | F.hardtanh_(a, -0.5, 0.7)
Hardswish HardswishBackwardV2    | F  | F.hardswish(a * 2)
InplaceHardswish                 | F  | F.hardswish(a.mul_(2), inplace=True)
Hardsigmoid HardsigmoidBackward  | F  | F.hardsigmoid(a * 2)
InplaceHardsigmoid               | F  | F.hardsigmoid(a.mul_(2), inplace=True)
Hardshrink HardshrinkBackward    | F  | F.hardshrink(a, 0.4)
Softshrink SoftshrinkBackward    | F  | F.softshrink(a, 0.4)
Softplus SoftplusBackward        | F  | F.softplus(a, beta=2, threshold=1.5)
Glu GluBackward                  | F  | F.glu(a, -1)
Softmax SoftmaxBackward          | F  | torch.softmax(a, -1)
LogSoftmax LogSoftmaxBackward    | F  | torch.log_softmax(a, -1)
Softmax                          | F  | torch.softmax(a, -1, dtype=torch.float32)
LogSoftmax                       | F  | torch.log_softmax(a, 0)
Prelu PreluBackward              | F  | F.prelu(a, z.abs().reshape(1))
""")


@pytest.mark.parametrize("row", ACTIVATIONS, ids=str)
def test_activation(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("asked", ["none", "tanh"])
def test_gelu_is_the_tanh_approximation_whatever_is_asked_for(dtype: torch.dtype, asked: str) -> None:
    """As aclnnGelu is documented, and torch_npu calls it on A2 and A3."""
    before = ran()
    agree(
        lambda x: functional.gelu(x, approximate=asked),
        numbers(5, 7, dtype=dtype, grad=True),
        reference=lambda x: functional.gelu(x, approximate="tanh"),
    )
    after = ran()
    assert all(after[name] > before.get(name, 0) for name in ("aclnnGelu", "aclnnGeluBackward"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_npu_gelu_takes_either(dtype: torch.dtype, approximate: str) -> None:
    agree(
        lambda x: torch.ops.npu.npu_gelu(x, approximate=approximate),
        numbers(5, 7, dtype=dtype, grad=True),
        reference=lambda x: functional.gelu(x, approximate=approximate),
    )
    assert {"aclnnGeluV2", "aclnnGeluBackwardV2"} <= ran().keys()


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_mul_gates_by_the_second_half(approximate: str) -> None:
    def plain(x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, -1)
        return functional.gelu(left, approximate=approximate) * right

    agree(lambda x: torch.ops.npu.npu_gelu_mul(x, approximate=approximate), numbers(3, 8), reference=plain)
    assert "aclnnGeluMul" in ran()


def test_fast_gelu() -> None:
    agree(
        lambda x: torch.ops.npu.npu_fast_gelu(x),
        numbers(5, 7, grad=True),
        reference=lambda x: x * torch.sigmoid(1.702 * x),
    )
    assert {"aclnnFastGelu", "aclnnFastGeluBackward"} <= ran().keys()


def test_prelu_with_a_weight_a_channel() -> None:
    agree(functional.prelu, numbers(2, 3, 4, grad=True), torch.tensor([0.1, 0.2, 0.3]).requires_grad_())


def test_rrelu_draws_slopes_within_its_bounds() -> None:
    agree(lambda x: functional.rrelu(x, 0.1, 0.3, training=False), numbers(4, 5, grad=True))
    x = -torch.ones(1000).npu()
    for drawn in (
        functional.rrelu(x, 0.1, 0.3, training=True),
        functional.rrelu_(x.clone(), 0.1, 0.3, training=True),
    ):
        slopes = -drawn.cpu()
        assert 0.1 <= slopes.min() < 0.15 and 0.25 < slopes.max() <= 0.3
    assert {"aclnnRReluWithNoise", "aclnnInplaceRReluWithNoise"} <= ran().keys()
