from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers, whole

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16]
CLASSES, ROWS = 5, 9


def _targets(ignored: int | None = None) -> torch.Tensor:
    t = whole(CLASSES, ROWS)
    if ignored is not None:
        t[::3] = ignored
    return t


def _logits(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return numbers(ROWS, CLASSES, dtype=dtype, grad=True)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
class TestElementwise:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss"])
    def test_distances(self, name: str, dtype: torch.dtype, reduction: str) -> None:
        call = getattr(F, name)
        # The CPU rounds between steps in bfloat16: the reference is float32, rounded at the end.
        agree(
            lambda x, y: call(x, y, reduction=reduction),
            numbers(3, 7, dtype=dtype, grad=True),
            numbers(3, 7, dtype=dtype, seed=1),
        )

    def test_smooth_l1_beta(self, reduction: str) -> None:
        for beta in (0.0, 0.3):
            agree(
                lambda x, y, b=beta: F.smooth_l1_loss(x, y, reduction=reduction, beta=b),
                numbers(3, 7, grad=True),
                numbers(3, 7, seed=1),
            )

    def test_binary_cross_entropy(self, reduction: str) -> None:
        p = torch.sigmoid(numbers(3, 7)).detach().requires_grad_()
        agree(lambda x, y: F.binary_cross_entropy(x, y, reduction=reduction), p, whole(2, 3, 7).float())
        agree(
            lambda x, y, w: F.binary_cross_entropy(x, y, w, reduction=reduction),
            p,
            whole(2, 3, 7).float(),
            numbers(3, 7).abs(),
        )

    def test_binary_cross_entropy_with_logits(self, reduction: str) -> None:
        x, y = numbers(3, 7, grad=True), whole(2, 3, 7).float()
        call = F.binary_cross_entropy_with_logits
        agree(lambda x, y: call(x, y, reduction=reduction), x, y)
        agree(
            lambda x, y, w, p: call(x, y, w, pos_weight=p, reduction=reduction),
            x,
            y,
            numbers(7).abs(),
            numbers(7, seed=1).abs(),
        )

    @pytest.mark.parametrize("log_target", [False, True])
    def test_kl_div(self, reduction: str, log_target: bool) -> None:
        y = torch.log_softmax(numbers(4, 5, seed=2), -1)
        agree(
            lambda x, y: F.kl_div(x, y, reduction=reduction, log_target=log_target),
            torch.log_softmax(numbers(4, 5), -1).detach().requires_grad_(),
            (y if log_target else y.exp()).detach().requires_grad_(),
        )

    def test_soft_margin(self, reduction: str) -> None:
        agree(
            lambda x, y: F.soft_margin_loss(x, y, reduction=reduction),
            numbers(3, 7, grad=True),
            whole(2, 3, 7).float() * 2 - 1,
        )

    @pytest.mark.parametrize("weighted", [False, True])
    def test_nll(self, reduction: str, weighted: bool) -> None:
        w = numbers(CLASSES).abs() if weighted else None
        for target in (_targets(), _targets(-100), torch.full((ROWS,), -100)):
            agree(
                lambda x, y, w: F.nll_loss(torch.log_softmax(x, -1), y, w, reduction=reduction),
                _logits(),
                target,
                w,
            )

    def test_nll_2d(self, reduction: str) -> None:
        target = whole(4, 2, 3, 5)
        target[0, 0] = 1
        agree(
            lambda x, y: F.nll_loss(torch.log_softmax(x, 1), y, ignore_index=1, reduction=reduction),
            numbers(2, 4, 3, 5, grad=True),
            target,
        )

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_cross_entropy(self, reduction: str, dtype: torch.dtype) -> None:
        agree(lambda x, y: F.cross_entropy(x, y, reduction=reduction), _logits(dtype), _targets(-100))
        if dtype == torch.float32:
            agree(
                lambda x, y: F.cross_entropy(x, y, reduction=reduction, label_smoothing=0.1),
                _logits(),
                _targets(-100),
            )


def _vendor(x: torch.Tensor, y: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    import torch_npu

    return torch_npu.npu_cross_entropy_loss(x, y, **kwargs)[0]


def _expected(
    x: torch.Tensor, y: torch.Tensor, reduction: str = "mean", ignore_index: int = -100
) -> torch.Tensor:
    loss = F.cross_entropy(x.float(), y, reduction=reduction, ignore_index=ignore_index).to(x.dtype)
    return loss if reduction == "none" else loss.reshape(1)


class TestVendorsCrossEntropy:
    """``npu_cross_entropy_loss``: a loss of shape [1] in the input's dtype; a negative ignore_index ignores nothing."""

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
    def test_loss_and_gradient(self, reduction: str, dtype: torch.dtype) -> None:
        agree(_vendor, _logits(dtype), _targets(), reference=_expected, reduction=reduction)

    def test_ignored_class(self) -> None:
        agree(_vendor, _logits(), _targets(2), reference=_expected, reduction="none", ignore_index=2)

    def test_negative_ignore_index_is_out_of_range(self) -> None:
        # Only their contents tell: the stream fails, and what waits for it says so.
        with pytest.raises(RuntimeError):
            _vendor(_logits().npu(), _targets(-100).npu(), reduction="none").cpu()

    def test_mean_takes_nothing_else_backward(self) -> None:
        loss = _vendor(_logits().npu(), _targets(2).npu(), ignore_index=2)
        with pytest.raises(RuntimeError, match="mean takes neither"):
            loss.backward()
            torch.npu.synchronize()

    def test_log_probabilities_and_z(self) -> None:
        import torch_npu

        x, y = _logits().detach(), _targets()
        loss, log_prob, z, lse = torch_npu.npu_cross_entropy_loss(
            x.npu(), y.npu(), reduction="sum", lse_square_scale_for_zloss=0.1, return_zloss=True
        )
        torch.testing.assert_close(log_prob.cpu(), torch.log_softmax(x, -1))
        torch.testing.assert_close(lse.cpu(), torch.logsumexp(x, -1))
        torch.testing.assert_close(z.cpu(), (0.1 * torch.logsumexp(x, -1) ** 2).sum().reshape(1))
        torch.testing.assert_close(loss.cpu() - z.cpu(), F.cross_entropy(x, y, reduction="sum").reshape(1))
