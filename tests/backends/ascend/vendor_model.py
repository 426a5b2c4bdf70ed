"""torch_npu's fused operators as its documents describe them, on CPU tensors and with the traps left in.

It is written from the documents alone, without a look at the emulator, so that what both agree on is worth more.
Sources: Ascend/op-plugin docs/zh/custom_APIs/torch_npu, op_plugin/config/derivatives.yaml, test/test_custom_ops.
"""

from __future__ import annotations

import torch

GARBAGE = 1e4


def npu_rms_norm(x, gamma, epsilon=1e-6):
    assert gamma.shape == x.shape[-1:] and (gamma.dtype in (x.dtype, torch.float32)) and x.numel()
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (wide * rstd * gamma.float()).to(x.dtype), rstd


def npu_rms_norm_backward(dy, x, gamma, rstd):
    assert dy.dtype == x.dtype and rstd.shape == (*x.shape[:-1], 1)
    normed, h = x.float() * rstd, dy.float() * gamma.float()
    dx = rstd * (h - normed * (h * normed).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy.float() * normed).flatten(0, -2).sum(0)  # float32 whatever gamma is


def npu_add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    assert gamma.dtype == x1.dtype == x2.dtype and x1.numel(), "no mixed dtypes, no empty tensors"
    x = x1 + x2
    return (*npu_rms_norm(x, gamma, epsilon), x)


def npu_rotary_mul(x, cos, sin, rotary_mode="half"):
    assert x.dim() in (3, 4) and x.shape[-1] % 2 == 0 and x.shape[-1] < 896 and x.numel()
    batch, tokens = x.shape[:2]
    if x.dim() == 4:  # BSND
        assert batch < 1000 and x.shape[2] < 1000
        shapes = {"1S1D": (1, tokens, 1), "BS1D": (batch, tokens, 1), "BSND": x.shape[:3]}
        allowed = [shapes["1S1D"]] if rotary_mode == "interleave" else shapes.values()
    else:  # TND
        allowed = [(batch, 1)] if rotary_mode == "interleave" else [(batch, 1), x.shape[:2]]
    assert tuple(cos.shape[:-1]) in [tuple(s) for s in allowed] and cos.shape == sin.shape
    assert cos.shape[-1] == x.shape[-1]
    if rotary_mode == "half":
        a, b = x.float().chunk(2, -1)
        turned = torch.cat((-b, a), -1)
    else:
        a, b = x.float()[..., 0::2], x.float()[..., 1::2]
        turned = torch.stack((-b, a), -1).flatten(-2)
    cos, sin = cos.to(x.dtype).float(), sin.to(x.dtype).float()
    return (x.float() * cos + turned * sin).to(x.dtype)


def npu_swiglu(x, dim=-1):
    assert x.is_contiguous() and x.numel() and x.shape[dim] % 2 == 0
    gate, up = x.float().chunk(2, dim)
    return (torch.nn.functional.silu(gate) * up).to(x.dtype)


def npu_swiglu_backward(grad, x, dim=-1):
    assert x.is_contiguous() and grad.dtype == x.dtype
    gate, up = x.float().chunk(2, dim)
    s, g = torch.sigmoid(gate), grad.float()
    return torch.cat((g * up * s * (1 + gate * (1 - s)), g * gate * s), dim).to(x.dtype)


def npu_cross_entropy_loss(logits, target, weight=None, reduction="mean", ignore_index=-100):
    assert weight is None and ((target >= 0) & (target < logits.shape[1])).all(), "out of range"
    log_prob = logits.float().log_softmax(-1)
    loss = -log_prob.gather(1, target[:, None])[:, 0]
    if ignore_index >= 0:
        loss = loss.masked_fill(target == ignore_index, 0)
    if reduction != "none":
        loss = getattr(loss, reduction)().reshape(1)
    return loss.to(logits.dtype), log_prob.to(logits.dtype), torch.empty(0), torch.empty(0)


def npu_cross_entropy_loss_backward(
    grad, log_prob, target, weight, grad_zloss, lse_for_zloss, reduction="mean", ignore_index=-100
):
    assert reduction == "none" and ((target >= 0) & (target < log_prob.shape[1])).all()
    p = log_prob.exp()
    return (p - torch.nn.functional.one_hot(target, p.shape[1])) * grad[:, None]


def npu_grouped_matmul(x, weight, *, group_list, split_item=0, group_type=None, group_list_type=0):
    (x,), (weight,) = x, weight
    assert group_type is not None and group_list.dtype == torch.int64 and split_item in (2, 3)
    assert x.dtype == weight.dtype and x.shape[-1] < 65536 and len(group_list) <= 1024
    counts = group_list.tolist() if group_list_type == 1 else group_list.diff(prepend=torch.zeros(1)).tolist()
    if group_type == 0:
        assert x.is_contiguous() and sum(counts) == len(x)
        parts = [a.float() @ w.float() for a, w in zip(x.split(counts), weight)]
        return [torch.cat(parts).to(x.dtype)]
    assert group_type == 2 and x.stride(0) == 1, "the view of the transpose"
    pairs = zip(x.split(counts, 1), weight.split(counts))
    return [torch.stack([a.float() @ b.float() for a, b in pairs]).to(x.dtype)]


def npu_moe_token_permute(tokens, indices):
    assert tokens.numel()
    order = indices.flatten().argsort(stable=True)
    return tokens[order // indices.shape[1]], order.argsort(stable=True).to(torch.int32)


def npu_moe_token_unpermute(permuted, sorted_indices, probs=None):
    assert permuted.numel() and sorted_indices.dtype == torch.int32
    assert probs is None or probs.dtype == permuted.dtype
    k = 1 if probs is None else probs.shape[1]
    rows = permuted.float()[sorted_indices.long()].unflatten(0, (-1, k))
    rows = rows if probs is None else rows * probs.float()[..., None]
    return rows.sum(1).to(permuted.dtype)


# -- attention -----------------------------------------------------------------------------------------------------


def _hidden(sq, sk, mask, pre, post, mode):
    """[…, sq, sk]: what is masked out. Without a mask a sparse mode means nothing."""
    if mask is None:
        return torch.zeros(sq, sk, dtype=torch.bool)
    assert mask.dtype in (torch.bool, torch.uint8)
    if mode in (0, 1):
        assert mask.shape[-2:] == (sq, sk)
        return mask.bool()
    assert mask.shape == (2048, 2048) and mask.bool().equal(torch.ones(2048, 2048, dtype=torch.bool).triu(1))
    i, j = torch.arange(sq)[:, None], torch.arange(sk)[None]
    place = i if mode == 2 else i + sk - sq
    if mode in (2, 3):
        return j > place
    assert mode == 4
    return (j > place + post) | (j < place - pre)


def _one(q, k, v, hidden, scale, inner_precise):
    """``q`` [B, N, S, D]: output, maximum and sum. A row that sees nothing gives garbage unless told of it."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.float().repeat_interleave(group, 1) for t in (k, v))
    s = (q.float() @ k.mT * scale).masked_fill(hidden, torch.finfo(torch.float32).min)
    top = s.amax(-1, keepdim=True)
    e = (s - top).exp()
    total = e.sum(-1, keepdim=True)
    out = e / total @ v
    empty = hidden.all(-1, keepdim=True).expand(*s.shape[:3], 1)
    out = out.masked_fill(empty, 0.0 if inner_precise == 2 else GARBAGE)
    return out.to(q.dtype), *(t.expand(*t.shape[:3], 8).contiguous() for t in (top, total))


def _one_backward(q, k, v, dy, hidden, scale, top, total, out):
    group, heads = q.shape[1] // k.shape[1], k.shape[1]
    wide = [t.float().repeat_interleave(group, 1) for t in (k, v)]
    s = (q.float() @ wide[0].mT * scale).masked_fill(hidden, torch.finfo(torch.float32).min)
    p = (s - top[..., :1]).exp() / total[..., :1]
    dp = dy.float() @ wide[1].mT
    ds = p * (dp - (dy.float() * out.float()).sum(-1, keepdim=True)) * scale
    dk, dv = (t.unflatten(1, (heads, group)).sum(2) for t in (ds.mT @ q.float(), p.mT @ dy.float()))
    return tuple(t.to(q.dtype) for t in (ds @ wide[0], dk, dv))


def _check(query, key, value, head_num, layout):
    assert query.dtype == key.dtype == value.dtype and query.shape[-1] == key.shape[-1] <= 768
    assert value.shape[-1] <= key.shape[-1] and query.is_contiguous() and query.numel()
    assert head_num == query.shape[-2] and head_num % key.shape[-2] == 0
    assert layout in ("BSND", "TND")


def _ranges(ends):
    return [slice(a, b) for a, b in zip([0, *ends], ends)]


def npu_fusion_attention(
    query, key, value, head_num, input_layout, *, atten_mask=None, scale=1.0, pre_tockens=2147483647,
    next_tockens=2147483647, inner_precise=0, actual_seq_qlen=None, actual_seq_kvlen=None, sparse_mode=0,
    softmax_layout="",
):  # fmt: skip
    _check(query, key, value, head_num, input_layout)
    band = (pre_tockens, next_tockens, sparse_mode)
    if input_layout == "BSND":
        q, k, v = (t.transpose(1, 2) for t in (query, key, value))
        hidden = _hidden(q.shape[2], k.shape[2], atten_mask, *band)
        out, top, total = _one(q, k, v, hidden, scale, inner_precise)
        return out.transpose(1, 2).contiguous(), top, total, torch.empty(0), 0, 0, 0
    assert actual_seq_qlen[-1] == len(query) and softmax_layout == "TND"
    parts = []
    for a, b in zip(_ranges(actual_seq_qlen), _ranges(actual_seq_kvlen)):
        if a.start == a.stop:
            continue
        q, k, v = (t.transpose(0, 1)[None] for t in (query[a], key[b], value[b]))
        hidden = _hidden(q.shape[2], k.shape[2], atten_mask, *band)
        assert not hidden.all(-1).any() and k.shape[2], "a row with no visible key is not allowed"
        parts.append([t[0].transpose(0, 1) for t in _one(q, k, v, hidden, scale, inner_precise)])
    return *(torch.cat(t) for t in zip(*parts)), torch.empty(0), 0, 0, 0


def npu_fusion_attention_grad(
    query, key, value, dy, head_num, input_layout, *, atten_mask=None, softmax_max, softmax_sum, attention_in,
    scale_value=1.0, pre_tockens=2147483647, next_tockens=2147483647, inner_precise=0, actual_seq_qlen=None,
    actual_seq_kvlen=None, sparse_mode=0, softmax_layout="",
):  # fmt: skip
    _check(query, key, value, head_num, input_layout)
    band = (pre_tockens, next_tockens, sparse_mode)
    if input_layout == "BSND":
        q, k, v, g, o = (t.transpose(1, 2) for t in (query, key, value, dy, attention_in))
        hidden = _hidden(q.shape[2], k.shape[2], atten_mask, *band)
        found = _one_backward(q, k, v, g, hidden, scale_value, softmax_max, softmax_sum, o)
        return *(t.transpose(1, 2).contiguous() for t in found), torch.empty(0), torch.empty(0)
    assert softmax_layout == "TND" and softmax_max.shape == (*query.shape[:2], 8)
    grads = [torch.zeros_like(t) for t in (query, key, value)]
    for a, b in zip(_ranges(actual_seq_qlen), _ranges(actual_seq_kvlen)):
        if a.start == a.stop:
            continue
        rows = (query[a], key[b], value[b], dy[a], softmax_max[a], softmax_sum[a], attention_in[a])
        q, k, v, g, top, total, o = (t.transpose(0, 1)[None] for t in rows)
        hidden = _hidden(q.shape[2], k.shape[2], atten_mask, *band)
        found = _one_backward(q, k, v, g, hidden, scale_value, top, total, o)
        for grad, at, new in zip(grads, (a, b, b), found):
            grad[at] = new[0].transpose(0, 1)
    return *grads, torch.empty(0), torch.empty(0)
