"""Flash attention as torch_npu calls it, with the traps that the documentation leaves open to a caller."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import agree, numbers, whole
from tests.emulators.opapi.attention import COMPRESSED, causal, fusion, heads_first, laid_out, reference

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

B, N, NKV, D = 2, 4, 2, 8
SCALE = 1 / math.sqrt(D)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def _qkv(
    layout: str = "BNSD", sq: int = 5, skv: int = 7, dtype: torch.dtype = torch.float32, nkv: int = NKV
) -> list[torch.Tensor]:
    def one(heads: int, s: int, seed: int) -> torch.Tensor:
        return laid_out(numbers(B, heads, s, D, seed=seed), layout).to(dtype).contiguous().requires_grad_()

    return [one(N, sq, 0), one(nkv, skv, 1), one(nkv, skv, 2)]


def _dense(layout: str, nkv: int = NKV, **kwargs: Any) -> Any:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        parts = (heads_first(t, layout, h) for t, h in ((q, N), (k, nkv), (v, nkv)))
        return laid_out(reference(*parts, **kwargs), layout)

    return call


def _vendor(layout: str, **kwargs: Any) -> Any:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        given = {n: t.to(q.device) if isinstance(t, torch.Tensor) else t for n, t in kwargs.items()}
        return fusion(q, k, v, N, layout, **({"scale": SCALE} | given))

    return call


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND", "BNSD"])
def test_layouts(layout: str, dtype: torch.dtype) -> None:
    agree(_vendor(layout), *_qkv(layout, dtype=dtype), reference=_dense(layout))


@pytest.mark.parametrize("nkv", [1, 2, 4])
def test_shared_heads(nkv: int) -> None:
    agree(_vendor("BSND"), *_qkv("BSND", nkv=nkv), reference=_dense("BSND", nkv=nkv))


def test_mask_is_true_where_a_score_is_left_out() -> None:
    base = whole(2, 5, 7, seed=3).bool()
    base[:, 0] = False
    for mask in (
        base,
        base[None, None],
        base.expand(B, 1, 5, 7).contiguous(),
        base.expand(B, N, 5, 7).contiguous(),
    ):
        agree(_vendor("BNSD", atten_mask=mask), *_qkv(), reference=_dense("BNSD", left_out=base))
    agree(
        _vendor("BNSD", atten_mask=base.byte(), sparse_mode=1),
        *_qkv(),
        reference=_dense("BNSD", left_out=base),
    )


@pytest.mark.parametrize("sizes", [(5, 7), (7, 7), (3, 9)])
def test_causal_modes(sizes: tuple[int, int]) -> None:
    qkv = _qkv("BSND", *sizes)
    for mode, bottom_right in ((2, False), (3, True)):
        expected = _dense("BSND", left_out=causal(*sizes, bottom_right=bottom_right))
        agree(_vendor("BSND", atten_mask=COMPRESSED, sparse_mode=mode), *qkv, reference=expected)


def test_band_mode_counts_from_the_bottom_right() -> None:
    i, j = torch.arange(5)[:, None], torch.arange(7)
    out = (j - i - 2 > 1) | (j - i - 2 < -2)
    agree(
        _vendor("BNSD", atten_mask=COMPRESSED, sparse_mode=4, pre_tockens=2, next_tockens=1),
        *_qkv(),
        reference=_dense("BNSD", left_out=out),
    )


def test_default_mode_counts_its_band_from_the_top_left() -> None:
    i, j = torch.arange(5)[:, None], torch.arange(7)
    out = (j - i > 1) | (j - i < -2)
    agree(
        _vendor("BNSD", atten_mask=torch.zeros(5, 7, dtype=torch.bool), pre_tockens=2, next_tockens=1),
        *_qkv(),
        reference=_dense("BNSD", left_out=out),
    )


def test_prefix_modes() -> None:
    rows, prefix = causal(5, 7, bottom_right=True), [4, 6]
    out = torch.stack([rows & (torch.arange(7) >= p) for p in prefix])[:, None]
    compressed = torch.cat([COMPRESSED, torch.arange(2048).expand(1024, 2048) >= 1024])
    expected = _dense("BNSD", left_out=out)
    agree(_vendor("BNSD", atten_mask=out, sparse_mode=5, prefix=prefix), *_qkv(), reference=expected)
    agree(_vendor("BNSD", atten_mask=compressed, sparse_mode=6, prefix=prefix), *_qkv(), reference=expected)


class TestTraps:
    @pytest.mark.parametrize("mode", [2, 3, 4])
    def test_a_causal_mode_without_its_mask_is_full_attention(self, mode: int) -> None:
        agree(_vendor("BNSD", sparse_mode=mode), *_qkv(), reference=_dense("BNSD"))

    def test_the_scale_is_one_unless_given(self) -> None:
        agree(_vendor("BNSD", scale=1.0), *_qkv(), reference=_dense("BNSD", scale=1.0))
        q, k, v = (t.detach().npu() for t in _qkv())
        torch.testing.assert_close(fusion(q, k, v, N, "BNSD"), fusion(q, k, v, N, "BNSD", scale=1.0))

    def test_the_bias_is_scaled_too(self) -> None:
        bias = numbers(1, N, 5, 7, seed=4)
        agree(_vendor("BNSD", pse=bias), *_qkv(), reference=_dense("BNSD", bias=bias * SCALE))

    def test_an_inverted_compressed_mask_is_used_as_it_is(self) -> None:
        agree(
            _vendor("BNSD", atten_mask=~COMPRESSED, sparse_mode=2),
            *_qkv(sq=4, skv=6),
            reference=_dense("BNSD", left_out=~causal(4, 6)),
        )

    def test_a_row_that_is_left_out_whole_is_an_average_unless_asked_for(self) -> None:
        mask = torch.zeros(5, 7, dtype=torch.bool)
        mask[2] = True
        q, k, v = (t.detach().npu() for t in _qkv())
        plain = fusion(q, k, v, N, "BNSD", scale=SCALE, atten_mask=mask.npu()).cpu()
        exact = fusion(q, k, v, N, "BNSD", scale=SCALE, atten_mask=mask.npu(), inner_precise=2).cpu()
        torch.testing.assert_close(plain[:, :, 2], v.cpu().mean(2).repeat_interleave(2, 1))
        assert exact[:, :, 2].abs().max() == 0
        torch.testing.assert_close(plain[:, :, 3:], exact[:, :, 3:])

    def test_fewer_keys_than_queries_in_bottom_right_mode_gives_zeros(self) -> None:
        q, k, v = (t.detach().npu() for t in _qkv(sq=7, skv=5))
        out = fusion(q, k, v, N, "BNSD", scale=SCALE, atten_mask=COMPRESSED.npu(), sparse_mode=3).cpu()
        assert out[:, :, :2].abs().max() == 0 and out[:, :, 2].abs().min() > 0

    def test_statistics_of_tnd_lie_heads_first_in_memory(self) -> None:
        import torch_npu

        q, k, v = (numbers(6, N, D, seed=i).npu() for i in range(3))
        ends = [2, 6]
        kwargs = {"scale": SCALE, "actual_seq_qlen": ends, "actual_seq_kvlen": ends}
        default = torch_npu.npu_fusion_attention(q, k, v, N, "TND", **kwargs)[1].cpu()
        asked = torch_npu.npu_fusion_attention(q, k, v, N, "TND", softmax_layout="TND", **kwargs)[1].cpu()
        assert default.shape == asked.shape == (6, N, 8)
        torch.testing.assert_close(default.reshape(N, 6, 8).transpose(0, 1), asked)
        assert not torch.equal(default, asked)


class TestRefused:
    @pytest.mark.parametrize("mode", [2, 3, 4])
    def test_a_compressed_mask_of_another_size(self, mode: int) -> None:
        with pytest.raises(RuntimeError):
            _vendor("BNSD", atten_mask=causal(5, 7), sparse_mode=mode)(*(t.npu() for t in _qkv())).cpu()

    def test_a_mask_of_numbers(self) -> None:
        with pytest.raises(RuntimeError):
            _vendor("BNSD", atten_mask=torch.zeros(5, 7))(*(t.npu() for t in _qkv())).cpu()

    def test_mixed_dtypes(self) -> None:
        q, k, v = (t.npu() for t in _qkv())
        with pytest.raises(RuntimeError):
            fusion(q, k.bfloat16(), v, N, "BNSD").cpu()

    def test_heads_that_cannot_be_shared(self) -> None:
        q, k, v = numbers(1, 4, 3, 8).npu(), numbers(1, 3, 3, 8).npu(), numbers(1, 3, 3, 8).npu()
        with pytest.raises(RuntimeError):
            fusion(q, k, v, 4, "BNSD").cpu()


def _packed(lengths: list[int], heads: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    return numbers(sum(lengths), heads, D, seed=seed).to(dtype).requires_grad_()


def _ends(lengths: list[int]) -> list[int]:
    return torch.tensor(lengths).cumsum(0).tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mode", [0, 2, 3])
@pytest.mark.parametrize("lengths", [([3, 4, 2], [3, 4, 2]), ([2, 0, 3], [5, 0, 6]), ([6], [6])])
def test_packed_sequences(lengths: tuple[list[int], list[int]], mode: int, dtype: torch.dtype) -> None:
    ql, kl = lengths

    def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        outs = []
        for a, b, c in zip(q.split(ql), k.split(kl), v.split(kl)):
            if not len(a):
                continue
            out = None if mode == 0 else causal(len(a), len(b), bottom_right=mode == 3)
            outs.append(
                reference(*(t.transpose(0, 1)[None] for t in (a, b, c)), left_out=out)[0].transpose(0, 1)
            )
        return torch.cat(outs)

    agree(
        _vendor(
            "TND",
            atten_mask=None if mode == 0 else COMPRESSED,
            sparse_mode=mode,
            actual_seq_qlen=_ends(ql),
            actual_seq_kvlen=_ends(kl),
        ),
        _packed(ql, N, 0, dtype),
        _packed(kl, NKV, 1, dtype),
        _packed(kl, NKV, 2, dtype),
        reference=expected,
    )


def test_later_versions_of_the_call() -> None:
    import torch_npu

    def v2(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = COMPRESSED.to(q.device)
        return torch_npu.npu_fusion_attention_v2(
            q, k, v, N, "BNSD", scale=SCALE, atten_mask=mask, sparse_mode=2, pse_type=1
        )[0]

    def v3(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = COMPRESSED.to(q.device)
        return torch_npu.npu_fusion_attention_v3(
            q, k, v, N, "BNSD", scale=SCALE, atten_mask=mask, sparse_mode=2
        )[0]

    for call in (v2, v3):
        agree(call, *_qkv(sq=6, skv=6), reference=_dense("BNSD", left_out=causal(6, 6)))


def test_packed_statistics_of_either_order_serve_the_gradient() -> None:
    import torch_npu

    lengths = [2, 4]

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, order: str) -> torch.Tensor:
        return torch_npu.npu_fusion_attention(
            q,
            k,
            v,
            N,
            "TND",
            scale=SCALE,
            actual_seq_qlen=_ends(lengths),
            actual_seq_kvlen=_ends(lengths),
            softmax_layout=order,
        )[0]

    def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, order: str) -> torch.Tensor:
        parts = zip(*(t.split(lengths) for t in (q, k, v)))
        return torch.cat([reference(*(t.transpose(0, 1)[None] for t in p))[0].transpose(0, 1) for p in parts])

    qkv = [_packed(lengths, h, i, torch.float32) for i, h in enumerate((N, NKV, NKV))]
    for order in ("", "TND"):
        agree(call, *qkv, order, reference=expected)


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_a_sink_takes_its_share(layout: str) -> None:
    import torch_npu

    extra = {"actual_seq_qlen": [5], "actual_seq_kvlen": [5]} if layout == "TND" else {}

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_fusion_attention(q, k, v, N, layout, scale=SCALE, sink=sink, **extra)[0]

    def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
        if layout == "TND":
            q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
        scores = q @ k.transpose(-1, -2) * SCALE
        column = sink.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        out = torch.cat([scores, column], -1).softmax(-1)[..., :-1] @ v
        return out[0].transpose(0, 1) if layout == "TND" else out

    shape = (5, N, D) if layout == "TND" else (B, N, 5, D)
    agree(
        call,
        *(numbers(*shape, seed=i, grad=True) for i in range(3)),
        numbers(N, seed=5, grad=True),
        reference=expected,
    )


def test_bias_of_the_second_version() -> None:
    import torch_npu

    bias = numbers(1, N, 5, 7, seed=4)

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor, kind: int) -> torch.Tensor:
        return torch_npu.npu_fusion_attention_v2(q, k, v, N, "BNSD", scale=SCALE, pse=pse, pse_type=kind)[0]

    def expected(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor, kind: int
    ) -> torch.Tensor:
        return reference(q, k, v, bias=pse * (SCALE if kind == 1 else 1.0))

    for kind in (0, 1):
        agree(call, *_qkv(), bias.clone().requires_grad_(), kind, reference=expected)


def test_alibi_is_made_inside() -> None:
    import torch_npu

    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    far = (torch.arange(6)[:, None] - torch.arange(6)).abs().float()
    for kind, distance in ((2, far), (3, far.sqrt())):
        agree(
            lambda q, k, v, s, t=kind: torch_npu.npu_fusion_attention_v2(
                q, k, v, N, "BNSD", scale=SCALE, pse=s, pse_type=t
            )[0],
            *_qkv(sq=6, skv=6),
            slopes,
            reference=lambda q, k, v, s, d=distance: reference(q, k, v, bias=-d * s[:, None, None]),
        )


def test_dropout_is_the_same_in_both_directions() -> None:
    torch.npu.manual_seed(11)
    q, k, v = (t.detach().npu().requires_grad_() for t in _qkv(sq=16, skv=16))
    out = fusion(q, k, v, N, "BNSD", scale=SCALE, keep_prob=0.5)
    out.sum().backward()
    # The output is linear in v: its gradient sums what the forward pass kept.
    torch.testing.assert_close((v.grad * v).sum().cpu(), out.sum().cpu(), rtol=1e-4, atol=1e-3)
    torch.npu.manual_seed(11)
    again = fusion(q, k, v, N, "BNSD", scale=SCALE, keep_prob=0.5)
    assert torch.equal(out.cpu(), again.cpu())
    assert not torch.equal(out.cpu(), fusion(q, k, v, N, "BNSD", scale=SCALE, keep_prob=0.5).cpu())


class TestTorchs:
    """``torch.nn.functional.scaled_dot_product_attention``, which torch_npu sends to flash attention where it can."""

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("is_causal", [True, False])
    def test_plain(self, is_causal: bool, dtype: torch.dtype) -> None:
        sdpa = torch.nn.functional.scaled_dot_product_attention
        agree(
            lambda q, k, v: sdpa(q, k, v, is_causal=is_causal),
            *_qkv(sq=6, skv=6, nkv=N, dtype=dtype),
            close=None if dtype == torch.float32 else (2e-2, 3e-2),
        )

    def test_boolean_mask(self) -> None:
        keep = whole(2, B, 1, 5, 7, seed=3).bool()
        keep[..., 0] = True
        sdpa = torch.nn.functional.scaled_dot_product_attention
        agree(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *_qkv(nkv=N), keep)

    def test_additive_mask(self) -> None:
        sdpa = torch.nn.functional.scaled_dot_product_attention
        agree(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *_qkv(nkv=N), numbers(B, 1, 5, 7, seed=3))

    def test_shared_heads(self) -> None:
        sdpa = torch.nn.functional.scaled_dot_product_attention
        agree(lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), *_qkv(sq=6, skv=6))
