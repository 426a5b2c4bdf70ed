"""AdamW and clipping against torch."""

from __future__ import annotations

import torch

import hetero.ops as ops
from tests.ops.definitions.helpers import close, randn


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
