"""The vendor's fused calls that models use."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def _rotate(x: torch.Tensor, mode: str) -> torch.Tensor:
    if mode == "interleave":
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((-odd, even), -1).flatten(-2)
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def _rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mode: str = "half") -> torch.Tensor:
    f = x.float()
    return (f * cos.float() + _rotate(f, mode) * sin.float()).to(x.dtype)


def _vendor(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mode: str = "half") -> torch.Tensor:
    import torch_npu

    return torch_npu.npu_rotary_mul(x, cos, sin, mode)


class TestRotary:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("mode", ["half", "interleave"])
    @pytest.mark.parametrize(
        ("x", "table"),
        [
            ((2, 3, 5, 8), (1, 1, 5, 8)),
            ((2, 5, 3, 8), (2, 5, 1, 8)),
            ((5, 2, 3, 8), (5, 1, 1, 8)),
            ((5, 3, 8), (5, 1, 8)),
        ],
    )
    def test_layouts(self, x: tuple[int, ...], table: tuple[int, ...], mode: str, dtype: torch.dtype) -> None:
        cos, sin = numbers(*table, dtype=dtype, seed=1), numbers(*table, dtype=dtype, seed=2)
        agree(_vendor, numbers(*x, dtype=dtype, grad=True), cos, sin, mode, reference=_rotary)

    def test_gradients_of_the_tables(self) -> None:
        agree(
            _vendor,
            numbers(2, 3, 5, 8, grad=True),
            numbers(1, 1, 5, 8, seed=1, grad=True),
            numbers(1, 1, 5, 8, seed=2, grad=True),
            reference=_rotary,
        )

    def test_tables_of_another_dtype_lose_precision(self) -> None:
        x, cos, sin = (
            numbers(2, 3, 5, 8, dtype=torch.bfloat16),
            numbers(1, 1, 5, 8),
            numbers(1, 1, 5, 8, seed=1),
        )
        out = _vendor(x.npu(), cos.npu(), sin.npu()).cpu()
        torch.testing.assert_close(out, _rotary(x, cos.bfloat16(), sin.bfloat16()))

    def test_an_odd_head_is_refused(self) -> None:
        with pytest.raises(RuntimeError):
            _vendor(numbers(2, 3, 5, 7).npu(), numbers(1, 1, 5, 7).npu(), numbers(1, 1, 5, 7).npu()).cpu()

    def test_apply_writes_in_place(self) -> None:
        import torch_npu

        q, k = numbers(2, 5, 3, 64).npu(), numbers(2, 5, 1, 64, seed=1).npu()
        cos, sin = numbers(2, 5, 1, 64, seed=2), numbers(2, 5, 1, 64, seed=3)
        expected = _rotary(q.cpu(), cos, sin), _rotary(k.cpu(), cos, sin)
        torch_npu.npu_apply_rotary_pos_emb(q, k, cos.npu(), sin.npu(), "BSND")
        torch.testing.assert_close(q.cpu(), expected[0])
        torch.testing.assert_close(k.cpu(), expected[1])


class TestGates:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("dim", [-1, 1])
    def test_swiglu(self, dim: int, dtype: torch.dtype) -> None:
        def vendor(x: torch.Tensor) -> torch.Tensor:
            import torch_npu

            return torch_npu.npu_swiglu(x, dim)

        def expected(x: torch.Tensor) -> torch.Tensor:
            gate, up = x.float().chunk(2, dim)
            return (torch.nn.functional.silu(gate) * up).to(x.dtype)

        agree(vendor, numbers(3, 4, 10, dtype=dtype, grad=True), reference=expected)

    @pytest.mark.parametrize("left", [False, True])
    @pytest.mark.parametrize("approximate", [0, 1])
    def test_geglu_activates_the_right_half_by_default(self, approximate: int, left: bool) -> None:
        def vendor(x: torch.Tensor) -> torch.Tensor:
            import torch_npu

            return torch_npu.npu_geglu(x, -1, approximate, left)[0]

        def expected(x: torch.Tensor) -> torch.Tensor:
            a, b = x.chunk(2, -1)
            first, second = (a, b) if left else (b, a)
            kind = "tanh" if approximate else "none"
            return torch.nn.functional.gelu(first, approximate=kind) * second

        agree(vendor, numbers(3, 10, grad=True), reference=expected)

    def test_an_odd_size_is_refused(self) -> None:
        import torch_npu

        with pytest.raises(RuntimeError):
            torch_npu.npu_swiglu(numbers(3, 5).npu()).cpu()


class TestGroupedMatmul:
    @pytest.mark.parametrize("counts", [0, 1])
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    def test_rows(self, dtype: torch.dtype, counts: int) -> None:
        import torch_npu

        x, w = numbers(7, 4, dtype=dtype), numbers(3, 4, 5, dtype=dtype)
        groups = [3, 0, 4]
        given = torch.tensor(groups) if counts else torch.tensor(groups).cumsum(0)
        (out,) = torch_npu.npu_grouped_matmul(
            [x.npu()], [w.npu()], group_list=given.npu(), split_item=2, group_type=0, group_list_type=counts
        )
        expected = torch.cat([a.float() @ b.float() for a, b in zip(x.split(groups), w)]).to(dtype)
        torch.testing.assert_close(out.cpu(), expected, rtol=2e-2, atol=2e-2)

    def test_inner(self) -> None:
        import torch_npu

        x, dy, groups = numbers(7, 4).bfloat16(), numbers(7, 5, seed=1).bfloat16(), [3, 0, 4]
        (out,) = torch_npu.npu_grouped_matmul(
            [x.npu().T],
            [dy.npu()],
            group_list=torch.tensor(groups).npu(),
            split_item=3,
            group_type=2,
            group_list_type=1,
        )
        expected = torch.stack([a.float().T @ b.float() for a, b in zip(x.split(groups), dy.split(groups))])
        torch.testing.assert_close(out.cpu().reshape(3, 4, 5), expected.bfloat16(), rtol=2e-2, atol=2e-2)

    def test_lists(self) -> None:
        import torch_npu

        xs, ws = [numbers(2, 4).half(), numbers(3, 4).half()], [numbers(4, 5).half(), numbers(4, 6).half()]
        outs = torch_npu.npu_grouped_matmul([x.npu() for x in xs], [w.npu() for w in ws], group_type=-1)
        for out, x, w in zip(outs, xs, ws):
            torch.testing.assert_close(out.cpu(), (x.float() @ w.float()).half(), rtol=3e-3, atol=3e-3)

    def test_groups_by_a_list(self) -> None:
        import torch_npu

        x, w = numbers(7, 4).half(), numbers(3, 4, 5).half()
        outs = torch_npu.npu_grouped_matmul(
            [x.npu()], [part.npu() for part in w], group_list=[3, 4, 7], split_item=2, group_type=0
        )
        expected = torch.cat([a.float() @ b.float() for a, b in zip(x.split([3, 1, 3]), w)]).half()
        torch.testing.assert_close(outs[0].cpu(), expected, rtol=3e-3, atol=3e-3)

    def test_add_reads_counts_as_sums(self) -> None:
        """The trap: torch_npu drops group_list_type on A2 and A3, and nothing says so."""
        import torch_npu

        x, dy, given = numbers(7, 4).bfloat16(), numbers(7, 5, seed=1).bfloat16(), torch.tensor([3, 4])
        into = torch.zeros(2, 4, 5).npu()
        torch_npu.npu_grouped_matmul_add_(into, x.npu(), dy.npu(), given.npu(), group_list_type=1)
        sums = torch.stack([x[:3].float().T @ dy[:3].float(), x[3:4].float().T @ dy[3:4].float()])
        torch.testing.assert_close(into.cpu(), sums, rtol=1e-3, atol=1e-3)

    def test_add_into_float32(self) -> None:
        import torch_npu

        x, dy, ends = numbers(7, 4).bfloat16(), numbers(7, 5, seed=1).bfloat16(), torch.tensor([3, 7])
        total = numbers(2, 4, 5)
        into = total.npu()
        torch_npu.npu_grouped_matmul_add_(into, x.npu(), dy.npu(), ends.npu())
        expected = total + torch.stack([x[:3].float().T @ dy[:3].float(), x[3:].float().T @ dy[3:].float()])
        torch.testing.assert_close(into.cpu(), expected, rtol=1e-3, atol=1e-3)

    def test_refuses_a_transposed_x_of_rows(self) -> None:
        import torch_npu

        with pytest.raises(RuntimeError):
            torch_npu.npu_grouped_matmul(
                [numbers(4, 7).half().npu().T],
                [numbers(2, 4, 5).half().npu()],
                group_list=torch.tensor([3, 7]).npu(),
                split_item=2,
                group_type=0,
            )[0].cpu()


class TestExperts:
    TOKENS, EXPERTS, TOP, WIDTH = 6, 4, 2, 3

    def _routed(self) -> tuple[torch.Tensor, torch.Tensor]:
        draw = torch.Generator().manual_seed(5)
        experts = torch.stack(
            [torch.randperm(self.EXPERTS, generator=draw)[: self.TOP] for _ in range(self.TOKENS)]
        )
        return numbers(self.TOKENS, self.WIDTH, grad=True), experts

    @pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
    def test_permute(self, dtype: torch.dtype) -> None:
        def vendor(tokens: torch.Tensor, experts: torch.Tensor) -> Any:
            import torch_npu

            return torch_npu.npu_moe_token_permute(tokens, experts)

        def expected(tokens: torch.Tensor, experts: torch.Tensor) -> Any:
            order = torch.argsort(experts.flatten(), stable=True)
            return tokens[order // self.TOP], torch.argsort(order, stable=True).int()

        tokens, experts = self._routed()
        agree(vendor, tokens, experts.to(dtype), reference=expected)

    def test_permute_drops_rows(self) -> None:
        import torch_npu

        tokens, experts = self._routed()
        out, _ = torch_npu.npu_moe_token_permute(tokens.detach().npu(), experts.npu(), num_out_tokens=7)
        order = torch.argsort(experts.flatten(), stable=True)
        torch.testing.assert_close(out.cpu(), tokens.detach()[order // self.TOP][:7])

    @pytest.mark.parametrize("weighted", [False, True])
    def test_there_and_back(self, weighted: bool) -> None:
        def vendor(tokens: torch.Tensor, experts: torch.Tensor, probs: torch.Tensor | None) -> torch.Tensor:
            import torch_npu

            permuted, order = torch_npu.npu_moe_token_permute(tokens, experts)
            return torch_npu.npu_moe_token_unpermute(permuted * permuted, order, probs=probs)

        def expected(tokens: torch.Tensor, experts: torch.Tensor, probs: torch.Tensor | None) -> torch.Tensor:
            each = (tokens * tokens)[:, None].expand(-1, self.TOP, -1)
            # Without probabilities nothing says how many choices a token had: each slot stays a row.
            return each.flatten(0, 1) if probs is None else (each * probs[:, :, None]).sum(1)

        tokens, experts = self._routed()
        probs = numbers(self.TOKENS, self.TOP, seed=1, grad=True) if weighted else None
        agree(vendor, tokens, experts, probs, reference=expected)

    def test_gating_softmax(self) -> None:
        import torch_npu

        x = numbers(5, 8)
        y, expert, row = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), k=3)
        values, which = torch.softmax(x, -1).topk(3)
        torch.testing.assert_close(y.cpu(), values)
        assert torch.equal(expert.cpu(), which.int())
        assert torch.equal(row.cpu(), torch.arange(15).reshape(3, 5).T.int())

    @pytest.mark.parametrize("norm_type", [0, 1])
    def test_gating(self, norm_type: int) -> None:
        def vendor(x: torch.Tensor, bias: torch.Tensor) -> Any:
            import torch_npu

            y, expert, _ = torch_npu.npu_moe_gating_top_k(
                x, 3, bias=bias, norm_type=norm_type, routed_scaling_factor=2.5
            )
            return y, expert

        def expected(x: torch.Tensor, bias: torch.Tensor) -> Any:
            score = x.sigmoid() if norm_type else x.softmax(-1)
            which = (score + bias).topk(3).indices
            y = score.gather(-1, which)
            return (y / (y.sum(-1, keepdim=True) + 1e-20) if norm_type else y) * 2.5, which.int()

        agree(vendor, numbers(5, 256), numbers(256, seed=1) * 0.01, reference=expected)

    def test_init_routing_and_finalize(self) -> None:
        import torch_npu

        tokens, experts = self._routed()
        tokens = tokens.detach()
        rows = torch.arange(self.TOKENS * self.TOP).reshape(self.TOP, self.TOKENS).T.int().contiguous()
        x, where, sorted_experts = torch_npu.npu_moe_init_routing(
            tokens.npu(), rows.npu(), experts.int().npu(), self.TOKENS
        )
        order = torch.argsort(experts.flatten(), stable=True)
        torch.testing.assert_close(x.cpu(), tokens[rows.flatten()[order] % self.TOKENS])
        assert torch.equal(sorted_experts.cpu(), experts.flatten()[order].int())
        scales = numbers(self.TOKENS, self.TOP)
        out = torch_npu.npu_moe_finalize_routing(
            x,
            skip1=tokens.npu(),
            skip2=None,
            bias=None,
            scales=scales.npu(),
            expanded_src_to_dst_row=where,
            export_for_source_row=None,
        )
        torch.testing.assert_close(out.cpu(), tokens * (1 + scales.sum(1, keepdim=True)))

    def test_routing_map_there_and_back(self) -> None:
        def vendor(tokens: torch.Tensor, probs: torch.Tensor, routing: torch.Tensor) -> Any:
            import torch_npu

            rows, weights, order = torch_npu.npu_moe_token_permute_with_routing_map(
                tokens, routing, probs=probs, num_out_tokens=self.TOKENS * self.TOP
            )
            back = torch_npu.npu_moe_token_unpermute_with_routing_map(
                rows * rows, order, list(tokens.shape), probs=probs, routing_map=routing
            )
            return rows, weights, back

        def expected(tokens: torch.Tensor, probs: torch.Tensor, routing: torch.Tensor) -> Any:
            which = routing.T.nonzero()
            rows, weights = tokens[which[:, 1]], probs.T[routing.T]
            return rows, weights, (tokens * tokens)[:, None].mul((probs * routing)[:, :, None]).sum(1)

        tokens, experts = self._routed()
        routing = torch.zeros(self.TOKENS, self.EXPERTS, dtype=torch.bool).scatter(1, experts, True)
        agree(
            vendor, tokens, numbers(self.TOKENS, self.EXPERTS, seed=1, grad=True), routing, reference=expected
        )

    def test_gating_softmax_of_the_chosen(self) -> None:
        import torch_npu

        x = numbers(5, 8)
        y, expert, _ = torch_npu.npu_moe_gating_top_k_softmax_v2(x.npu(), k=3, renorm=1)
        values, which = x.topk(3)
        torch.testing.assert_close(y.cpu(), values.softmax(-1))
        assert torch.equal(expert.cpu(), which.int())

    @pytest.mark.parametrize("norm_type", [0, 1])
    def test_gating_backward(self, norm_type: int) -> None:
        def vendor(x: torch.Tensor) -> torch.Tensor:
            import torch_npu

            return torch_npu.npu_moe_gating_top_k(x, 3, norm_type=norm_type, out_flag=True)[0]

        def expected(x: torch.Tensor) -> torch.Tensor:
            score = x.sigmoid() if norm_type else x.softmax(-1)
            y = score.gather(-1, score.topk(3).indices)
            return y / (y.sum(-1, keepdim=True) + 1e-20) if norm_type else y

        agree(vendor, numbers(5, 16, grad=True), reference=expected)

    def test_tokens_of_experts(self) -> None:
        import torch_npu

        ends = torch_npu.npu_moe_compute_expert_tokens(torch.tensor([0, 0, 2, 2, 2, 3]).int().npu(), 4)
        assert ends.tolist() == [2, 2, 5, 6]
