"""What every declared op promises, generated from its declaration."""

from __future__ import annotations

import copy

import pytest
import torch

import hetero.ops
from hetero.accelerator import device
from hetero.conform.ops import cases
from hetero.ops import registry

CPU = torch.device("cpu")
DTYPES = [torch.float64, torch.float32, torch.bfloat16]
OPS = registry.ops()
DIFFERENTIABLE = [n for n in OPS if registry.op(n).grads]


def sample_list(name, dtype, generator):
    return list(registry.op(name).samples(CPU, dtype, generator))


def passes_with_args(op, sample, generator):
    yield op.forward, sample.args
    if op.backward is not None:
        outputs = op.forward.reference(*copy.deepcopy(sample.args))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        upstream = [torch.randn(t.shape, generator=generator).to(t) for t in outputs[: op.public]]
        yield op.backward, op.backward_args(sample.args, outputs, upstream)


def small(op, samples):
    """A few samples: the cheap ones that still cover every flag."""
    return [s for s in samples if all(not torch.is_tensor(a) or a.numel() < 3000 for a in s.args)][:6]


@pytest.mark.parametrize("name", OPS)
def test_opcheck(name, generator):
    op = registry.op(name)
    for sample in small(op, sample_list(name, torch.float32, generator)):
        for pass_, args in passes_with_args(op, sample, generator):
            torch.library.opcheck(pass_.overload, copy.deepcopy(args))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_fake_outputs_match_real_ones(name, dtype, generator):
    op = registry.op(name)
    for sample in sample_list(name, dtype, generator):
        for pass_, args in passes_with_args(op, sample, generator):
            real = pass_(*copy.deepcopy(args))
            fake = pass_.fake(*args)
            real, fake = ([t] if torch.is_tensor(t) else list(t or ()) for t in (real, fake))
            assert [(t.shape, t.dtype, t.stride()) for t in real] == [
                (t.shape, t.dtype, t.stride()) for t in fake
            ], sample.name
            given = {a.untyped_storage().data_ptr() for a in args if torch.is_tensor(a) and a.numel()}
            made = {t.untyped_storage().data_ptr() for t in real if t.numel()}
            assert not given & made, "an output aliases an input"


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradcheck_in_float64(name, generator):
    op = registry.op(name)
    for sample in small(op, sample_list(name, torch.float64, generator)):
        if "huge" in sample.name:  # finite differences have no precision there
            continue
        args = [
            a.clone().requires_grad_() if n in op.grads and a is not None else a
            for n, a in zip(op.forward.args, sample.args)
        ]
        if any(torch.is_tensor(a) and a.requires_grad for a in args):
            assert torch.autograd.gradcheck(op.apply, args, fast_mode=True), sample.name


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_compiles_into_one_graph(name, generator):
    op = registry.op(name)
    sample = small(op, sample_list(name, torch.float32, generator))[-1]

    def leaves():
        return [
            a.detach().clone().requires_grad_() if n in op.grads and a is not None else a
            for n, a in zip(op.forward.args, sample.args)
        ]

    def loss(*args):
        out = op.apply(*args)
        return sum(
            (t.float() * (i + 1)).sum() for i, t in enumerate(out if isinstance(out, tuple) else (out,))
        )

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    eager_args, compiled_args = leaves(), leaves()
    eager, traced = loss(*eager_args), compiled(*compiled_args)
    eager.backward()
    traced.backward()
    torch.testing.assert_close(traced, eager)
    for a, b in zip(compiled_args, eager_args):
        if torch.is_tensor(b) and b.requires_grad:
            torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("name", OPS)
def test_implementations_conform(name, generator):
    """Each implementation on this machine, on fresh inputs, within the derived tolerance."""
    op, cpu = registry.op(name), device("cpu")
    seed = int(torch.randint(0, 2**31, (), generator=generator))
    for impl in registry.impls(name):
        ran = [c for dtype in (torch.float32, torch.bfloat16) for c in cases(op, impl, cpu, dtype, seed)]
        assert ran, f"{impl.name} was not exercised"
        assert [c for c in ran if c.failed] == []


@pytest.mark.parametrize("name", OPS)
def test_cost_counts_at_least_every_byte_of_the_operands_once(name, generator):
    op = registry.op(name)
    for sample in sample_list(name, torch.float32, generator):
        cost = op.cost(*sample.args)
        first = sample.args[0]
        nbytes = sum(t.nbytes for t in first) if isinstance(first, list) else first.nbytes
        assert cost.bytes >= nbytes
        assert (cost.flops > 0) == (nbytes > 0)


def test_every_op_is_public():
    assert all(callable(getattr(hetero.ops, name)) for name in OPS)
    assert all(getattr(hetero.ops, name).__doc__ for name in OPS)
