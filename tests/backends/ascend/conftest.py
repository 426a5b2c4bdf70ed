"""torch_npu's operators modelled on the CPU: the wrappers run where neither chip nor emulator is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetero.backends.ascend import (
    npu_attention,
    npu_glu,
    npu_loss,
    npu_moe,
    npu_norm,
    npu_optim,
    npu_rope,
    ops,
)

from . import vendor_model

MODULES = (npu_attention, npu_glu, npu_loss, npu_moe, npu_norm, npu_rope)


@pytest.fixture
def modelled(monkeypatch):
    """``impl(op)``: the vendor's implementation of an op over the model, without its conditions on the device."""
    for module in MODULES:
        monkeypatch.setattr(module, "npu", lambda name: getattr(vendor_model, name))
        if hasattr(module, "lacks"):
            monkeypatch.setattr(module, "lacks", lambda name, *arguments: None)
    monkeypatch.setattr(ops.vendor, "lacks", lambda name, *arguments: None)

    def impl(op):
        found = next(i for i in ops.impls() if i.op == op and i.name == "npu")
        also = (
            npu_optim.exact if op == "adamw" else found.where.also
        )  # there torch's own stands in for the NPU's
        return replace(found, where=replace(found.where, caps=(), also=also))

    return impl
