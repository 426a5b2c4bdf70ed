"""Public functions against independent float64 maths and against torch's own functions, on awkward inputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import hetero.ops as ops
from hetero.errors import OpError


def randn(*shape, generator, dtype=torch.float64, grad=False, scale=1.0):
    x = (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype)
    return x.requires_grad_(grad)


def close(a, b, **kw):
    torch.testing.assert_close(a, b, check_dtype=False, **kw)


# -- norms ---------------------------------------------------------------------------------------------------------


def test_rms_norm_is_torchs(generator):
    x, w = randn(3, 5, 17, generator=generator), randn(17, generator=generator)
    close(ops.rms_norm(x, w, 1e-5), F.rms_norm(x, (17,), w, 1e-5))
    close(ops.rms_norm(x, w, 1e-5, offset=1.0, casting="gemma"), F.rms_norm(x, (17,), w + 1, 1e-5))
    close(ops.rms_norm(x, eps=1e-5), F.rms_norm(x, (17,), None, 1e-5))


def test_rms_norm_casting_rounds_where_it_says(generator):
    x = randn(4, 64, generator=generator, dtype=torch.bfloat16)
    w = randn(64, generator=generator, dtype=torch.bfloat16)
    normed = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
    with ops.use("*=reference"):
        llama, gemma = ops.rms_norm(x, w), ops.rms_norm(x, w, casting="gemma")
    assert torch.equal(llama, w * normed.bfloat16())
    assert torch.equal(gemma, (normed * w.float()).bfloat16())


def test_fused_add_rms_norm_is_add_then_norm(generator):
    x, r, w = (randn(*s, generator=generator, grad=True) for s in ((4, 33), (4, 33), (33,)))
    y, s = ops.fused_add_rms_norm(x, r, w)
    (y.sum() + (s * s).sum()).backward()
    x2, r2, w2 = (t.detach().clone().requires_grad_() for t in (x, r, w))
    s2 = x2 + r2
    (F.rms_norm(s2, (33,), w2, 1e-6).sum() + (s2 * s2).sum()).backward()
    close(s, s2)
    for a, b in ((x, x2), (r, r2), (w, w2)):
        close(a.grad, b.grad)


def test_layer_norm_is_torchs(generator):
    x, w, b = (randn(*s, generator=generator, grad=True) for s in ((2, 3, 19), (19,), (19,)))
    close(ops.layer_norm(x, w, b, 1e-5), F.layer_norm(x, (19,), w, b, 1e-5))
    ops.layer_norm(x, w, b).square().sum().backward()
    grads = [t.grad.clone() for t in (x, w, b)]
    for t in (x, w, b):
        t.grad = None
    F.layer_norm(x, (19,), w, b, 1e-5).square().sum().backward()
    for g, t in zip(grads, (x, w, b)):
        close(g, t.grad)


# -- rope, glu -----------------------------------------------------------------------------------------------------


def complex_rope(x, angle):
    """Rotation as complex multiplication of interleaved pairs: [B, T, H, D] by [B, T, D/2]."""
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)[:, :, None]).flatten(-2)


@pytest.mark.parametrize("unsqueeze_dim", [1, 2])
def test_rope_interleaved_is_complex_multiplication(unsqueeze_dim, generator):
    q, k = randn(2, 7, 4, 16, generator=generator), randn(2, 7, 2, 16, generator=generator)
    positions = torch.randint(0, 50, (2, 7), generator=generator)
    frequency = 10000.0 ** (-torch.arange(8, dtype=torch.float64) / 8)
    table = torch.arange(50, dtype=torch.float64)[:, None] * frequency
    args = (q, k) if unsqueeze_dim == 2 else (q.transpose(1, 2), k.transpose(1, 2))
    out = ops.rope(
        *args,
        table.cos(),
        table.sin(),
        positions,
        interleaved=True,
        rotary_dim=16,
        unsqueeze_dim=unsqueeze_dim,
    )
    for got, x in zip(out, (q, k)):
        got = got if unsqueeze_dim == 2 else got.transpose(1, 2)
        close(got, complex_rope(x, table[positions]))


def test_rope_half_is_transformers(generator):
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = randn(2, 4, 9, 32, generator=generator), randn(2, 2, 9, 32, generator=generator)
    angle = randn(2, 9, 16, generator=generator)
    cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
    for got, want in zip(ops.rope(q, k, cos, sin), apply_rotary_pos_emb(q, k, cos, sin)):
        close(got, want)


def test_partial_rope_copies_the_rest_and_turns_back(generator):
    q, k = randn(1, 2, 5, 20, generator=generator), randn(1, 1, 5, 20, generator=generator)
    angle = randn(1, 5, 6, generator=generator)
    turned, _ = ops.rope(q, k, angle.cos(), angle.sin(), rotary_dim=12)
    assert torch.equal(turned[..., 12:], q[..., 12:])
    back, _ = ops.rope(turned, k, angle.cos(), -angle.sin(), rotary_dim=12)
    close(back, q)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_glus_are_torchs(approximate, generator):
    wide = randn(3, 2 * 21, generator=generator, scale=3.0)
    gate, up = wide.chunk(2, -1)
    close(ops.swiglu(gate, up), F.silu(gate) * up)
    close(ops.geglu(gate, up, approximate), F.gelu(gate, approximate=approximate) * up)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_glu_gradients_are_finite_for_huge_inputs(approximate):
    gate = torch.tensor([1e30, -1e30, 3e4, -3e4, 0.0], requires_grad=True)
    up = torch.ones(5, requires_grad=True)
    (ops.swiglu(gate, up) + ops.geglu(gate, up, approximate)).sum().backward()
    assert torch.isfinite(gate.grad).all()
    close(gate.grad, torch.tensor([2.0, 0.0, 2.0, 0.0, 1.0]))


# -- losses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_is_torchs(reduction, smoothing, generator):
    logits = randn(6, 11, generator=generator, grad=True)
    labels = torch.tensor([0, 10, -100, 3, -100, 7])
    ours = ops.cross_entropy(logits, labels, label_smoothing=smoothing, reduction=reduction)
    theirs = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction=reduction)
    close(ours, theirs)
    upstream = randn(*ours.shape, generator=generator)
    close(torch.autograd.grad(ours, logits, upstream)[0], torch.autograd.grad(theirs, logits, upstream)[0])


def full_loss(logits, labels, smoothing, z_loss, softcap, reduction):
    z = softcap * torch.tanh(logits / softcap) if softcap else logits
    lse = torch.logsumexp(z, -1)
    safe = labels.clamp(min=0)
    loss = (1 - smoothing) * (lse - z.gather(-1, safe[..., None])[..., 0]) + smoothing * (
        lse[..., None] - z
    ).mean(-1)
    loss = (loss + z_loss * lse**2) * (labels >= 0)
    return (
        loss
        if reduction == "none"
        else loss.sum() / (labels >= 0).sum()
        if reduction == "mean"
        else loss.sum()
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_with_everything_on(reduction, bias, generator):
    hidden, weight = (
        randn(2, 5, 8, generator=generator, grad=True),
        randn(13, 8, generator=generator, grad=True),
    )
    b = randn(13, generator=generator, grad=True) if bias else None
    labels = torch.tensor([[1, 12, -100, 0, 5], [-100, -100, 3, 2, 2]])
    inputs = [t for t in (hidden, weight, b) if t is not None]
    options = {"label_smoothing": 0.1, "z_loss": 1e-2, "softcap": 3.0, "reduction": reduction}
    want = full_loss(F.linear(hidden, weight, b), labels, 0.1, 1e-2, 3.0, reduction)
    upstream = randn(*want.shape, generator=generator)
    expected = torch.autograd.grad(want, inputs, upstream)
    for got in (
        ops.fused_linear_cross_entropy(hidden, weight, labels, b, **options),
        ops.cross_entropy(F.linear(hidden, weight, b), labels, **options),
    ):
        close(got, want)
        for a, e in zip(torch.autograd.grad(got, inputs, upstream), expected):
            close(a, e)


@pytest.mark.parametrize(
    "trained", [(True, False, False), (False, True, False), (False, False, True), (True, True, True)]
)
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_only_the_gradients_that_are_wanted(trained, reduction, generator):
    tensors = [randn(*s, generator=generator) for s in ((5, 8), (13, 8), (13,))]
    labels = torch.tensor([1, 12, -100, 0, 5])

    def gradients(fn):
        leaves = [t.clone().requires_grad_(need) for t, need in zip(tensors, trained)]
        fn(*leaves).sum().backward()
        return [t.grad for t in leaves]

    ours = gradients(lambda h, w, b: ops.fused_linear_cross_entropy(h, w, labels, b, reduction=reduction))
    logp = gradients(lambda h, w, b: -ops.linear_log_prob(h, w, labels, b)[0])
    theirs = gradients(lambda h, w, b: F.cross_entropy(F.linear(h, w, b), labels, reduction=reduction))
    for a, c, e, need in zip(ours, logp, theirs, trained):
        assert (a is not None) == (c is not None) == need
        if need:
            close(a, e)
            close(c, e)


def test_linear_log_prob_and_its_entropy(generator):
    hidden, weight = randn(7, 8, generator=generator, grad=True), randn(13, 8, generator=generator, grad=True)
    labels = torch.tensor([1, 12, -100, 0, 5, 5, 2])
    z = 4.0 * torch.tanh(F.linear(hidden, weight) / 4.0) / 0.7
    log_p = torch.log_softmax(z, -1)
    kept = labels >= 0
    want_logp = log_p.gather(-1, labels.clamp(min=0)[:, None])[:, 0] * kept
    want_entropy = -(log_p.exp() * log_p).sum(-1) * kept
    logp, entropy = ops.linear_log_prob(hidden, weight, labels, temperature=0.7, softcap=4.0)
    close(logp, want_logp)
    close(entropy, want_entropy)
    a, b = randn(7, generator=generator), randn(7, generator=generator)
    got = torch.autograd.grad((logp, entropy), (hidden, weight), (a, b))
    want = torch.autograd.grad((want_logp, want_entropy), (hidden, weight), (a, b))
    for g, w in zip(got, want):
        close(g, w)


def test_a_batch_with_every_token_masked_gives_zero_and_no_nan():
    hidden, weight = torch.randn(4, 8, requires_grad=True), torch.randn(13, 8, requires_grad=True)
    labels = torch.full((4,), -100)
    loss = ops.fused_linear_cross_entropy(hidden, weight, labels) + ops.cross_entropy(
        hidden @ weight.T, labels
    )
    loss = loss + ops.linear_log_prob(hidden, weight, labels)[0].sum()
    loss.backward()
    assert loss == 0 and not hidden.grad.any() and not weight.grad.any()


def test_a_label_out_of_range_is_named():
    logits = torch.randn(3, 5)
    for call in (
        lambda labels: ops.cross_entropy(logits, labels),
        lambda labels: ops.fused_linear_cross_entropy(logits, torch.randn(5, 5), labels),
        lambda labels: ops.linear_log_prob(logits, torch.randn(5, 5), labels),
    ):
        with pytest.raises(IndexError, match=r"label 5 of row 1"):
            call(torch.tensor([0, 5, 1]))
        with pytest.raises(IndexError, match=r"label -1 of row 2"):
            call(torch.tensor([0, 1, -1]))


def test_logits_are_never_materialised(generator):
    """Peak size of any one tensor stays at a chunk, far below tokens x vocabulary."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for t in out if isinstance(out, (tuple, list)) else (out,):
                if torch.is_tensor(t):
                    Largest.seen = max(Largest.seen, t.numel())
            return out

    tokens, vocabulary = 3000, 20000
    hidden = randn(tokens, 4, generator=generator, dtype=torch.float32, grad=True)
    weight = randn(vocabulary, 4, generator=generator, dtype=torch.float32)
    labels = torch.randint(0, vocabulary, (tokens,), generator=generator)
    for reduction in ("mean", "none"):
        with ops.use("*=reference"), Largest():
            ops.fused_linear_cross_entropy(hidden, weight, labels, reduction=reduction).sum().backward()
            ops.linear_log_prob(hidden, weight, labels)[0].sum().backward()
    # Selection runs below the mode, so look inside the reference itself.
    from hetero.ops.definitions import fused_linear_cross_entropy as flce

    args = flce._prepare(hidden.detach(), weight, labels)
    with Largest():
        flce.OP.forward.reference(*args)
    assert 0 < Largest.seen <= 1 << 24 < tokens * vocabulary


# -- optimiser -----------------------------------------------------------------------------------------------------


def test_adamw_is_torchs(generator):
    p = randn(5, 7, generator=generator, dtype=torch.float32)
    theirs = p.clone().requires_grad_()
    optimizer = torch.optim.AdamW([theirs], lr=1e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)
    ours, m, v = p.clone(), torch.zeros_like(p), torch.zeros_like(p)
    for step in range(1, 6):
        g = randn(5, 7, generator=generator, dtype=torch.float32)
        theirs.grad = g.clone()
        optimizer.step()
        ops.adamw(
            [ours], [g], [m], [v], lr=1e-2, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.1, step=step
        )
    close(ours, theirs.detach(), rtol=1e-6, atol=1e-7)


def test_adamw_master_weights_keep_what_bfloat16_loses():
    p = torch.ones(4, dtype=torch.bfloat16)
    master, m, v = p.float(), torch.zeros(4), torch.zeros(4)
    g = torch.ones(4, dtype=torch.bfloat16)
    for step in range(1, 101):
        ops.adamw([p], [g], [m], [v], [master], lr=1e-4, step=step)
    close(master, torch.full((4,), 0.99), rtol=1e-4, atol=0)
    close(p, master.bfloat16())


def test_clip_grad_norm_is_torchs(generator):
    grads = [randn(*s, generator=generator, dtype=torch.float32) for s in ((3, 4), (0,), (17,))]
    params = [torch.nn.Parameter(torch.zeros_like(g)) for g in grads]
    for p, g in zip(params, grads):
        p.grad = g.clone()
    want = torch.nn.utils.clip_grad_norm_(params, 0.5)
    close(ops.clip_grad_norm(grads, 0.5), want)
    for g, p in zip(grads, params):
        close(g, p.grad)


# -- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: ops.rms_norm(torch.randn(2, 8), torch.randn(7)),
            r"weight has shape \(7,\), expected \(8,\)",
        ),
        (lambda: ops.rms_norm(torch.ones(2, 8, dtype=torch.int64)), "floating-point"),
        (lambda: ops.rms_norm(torch.randn(2, 8), casting="lama"), "casting='lama'"),
        (lambda: ops.fused_add_rms_norm(torch.randn(2, 8), torch.randn(2, 7)), "must agree"),
        (lambda: ops.layer_norm(torch.randn(2, 8), None, torch.randn(9)), "bias has shape"),
        (lambda: ops.swiglu(torch.randn(2, 8), torch.randn(2, 9)), "must be floating-point and agree"),
        (lambda: ops.geglu(torch.randn(2), torch.randn(2), "erf"), "approximate='erf'"),
        (lambda: ops.cross_entropy(torch.randn(2, 8), torch.tensor([1.0, 2.0])), "int64"),
        (
            lambda: ops.cross_entropy(torch.randn(2, 8), torch.tensor([1, 2]), reduction="avg"),
            "reduction='avg'",
        ),
        (
            lambda: ops.cross_entropy(torch.randn(2, 8), torch.tensor([1, 2]), label_smoothing=2),
            "label_smoothing",
        ),
        (
            lambda: ops.linear_log_prob(torch.randn(2, 8), torch.randn(3, 7), torch.tensor([1, 2])),
            "do not fit",
        ),
        (
            lambda: ops.linear_log_prob(
                torch.randn(1, 8), torch.randn(3, 8), torch.tensor([1]), temperature=0
            ),
            "temperature=0",
        ),
        (
            lambda: ops.rope(torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.ones(4), torch.ones(4)),
            "four dim",
        ),
        (
            lambda: ops.rope(
                torch.randn(1, 2, 3, 8), torch.randn(1, 2, 3, 8), torch.ones(5, 8), torch.ones(5, 8)
            ),
            "without positions",
        ),
        (lambda: ops.clip_grad_norm([torch.randn(2)], 0.0), "max_norm=0.0"),
        (
            lambda: ops.adamw(
                [torch.ones(2)], [torch.ones(3)], [torch.ones(2)], [torch.ones(2)], lr=1, step=1
            ),
            r"grads\[0\] has shape",
        ),
        (
            lambda: ops.adamw(
                [torch.ones(2)], [torch.ones(2)], [torch.ones(2)], [torch.ones(2)], lr=1, step=0
            ),
            "step=0",
        ),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(OpError, match=says):
        call()


def test_differentiating_twice_is_refused():
    x = torch.randn(3, 4, requires_grad=True)
    (g,) = torch.autograd.grad(ops.rms_norm(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


# -- shapes and strides --------------------------------------------------------------------------------------------


@st.composite
def layouts(draw):
    """A tensor with up to four dimensions whose memory is permuted, stepped and offset at random."""
    shape = [*draw(st.lists(st.integers(0, 5), min_size=0, max_size=3)), draw(st.integers(1, 40))]
    order = draw(st.permutations(range(len(shape))))
    step = draw(st.sampled_from([1, 1, 2, 3]))
    offset = draw(st.integers(0, 3))
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16]))
    return shape, order, step, offset, dtype, draw(st.integers(0, 2**31))


def laid_out(case):
    shape, order, step, offset, dtype, seed = case
    generator = torch.Generator().manual_seed(seed)
    sizes = [shape[i] for i in order]
    sizes[-1] *= step
    numel = 1
    for s in sizes:
        numel *= s
    flat = torch.randn(numel + offset, generator=generator).to(dtype)[offset:]
    x = flat.view(sizes)[..., ::step] if sizes[-1] else flat.view(sizes)
    inverse = [order.index(i) for i in range(len(order))]
    return x.permute(inverse), generator


def unit(dtype):
    return {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_any_layout_gives_the_same_numbers(case):
    x, generator = laid_out(case)
    w = torch.randn(x.shape[-1], generator=generator).to(x.dtype)
    other = torch.randn(x.shape, generator=generator).to(x.dtype)
    with torch.no_grad():
        got = [
            ops.rms_norm(x, w), *ops.fused_add_rms_norm(x, other, w), ops.layer_norm(x, w, w), ops.swiglu(x, other),
            ops.geglu(other, x),
        ]  # fmt: skip
        x64, w64, o64 = x.double(), w.double(), other.double()
        s64 = (x + other).double()
        want = [
            F.rms_norm(x64, w64.shape, w64, 1e-6), F.rms_norm(s64, w64.shape, w64, 1e-6), s64,
            F.layer_norm(x64, w64.shape, w64, w64, 1e-5), F.silu(x64) * o64, F.gelu(o64) * x64,
        ]  # fmt: skip
    tolerance = unit(x.dtype)
    for g, e in zip(got, want):
        assert g.shape == e.shape and g.dtype == x.dtype
        torch.testing.assert_close(g.double(), e, rtol=tolerance, atol=tolerance)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 9),
    st.integers(1, 70),
    st.integers(0, 2**31),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_cross_entropy_of_any_shape(rows, classes, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(classes, rows, generator=generator) * 5).to(dtype).T.requires_grad_()
    labels = torch.randint(-1, classes, (rows,), generator=generator)
    loss = ops.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
    exact = logits.detach().double().requires_grad_()
    want = F.cross_entropy(exact, labels, ignore_index=-1, reduction="sum")
    torch.testing.assert_close(loss.double(), want, rtol=1e-5, atol=1e-5)
    (got,) = torch.autograd.grad(loss, logits)
    (expected,) = torch.autograd.grad(want, exact)
    torch.testing.assert_close(got.double(), expected, rtol=unit(dtype), atol=unit(dtype))
