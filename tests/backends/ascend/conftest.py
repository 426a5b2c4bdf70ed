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
    npu_rope,
    ops,
)

from . import vendor_model

MODULES = (npu_attention, npu_glu, npu_loss, npu_moe, npu_norm, npu_rope)


@pytest.fixture
def modelled(monkeypatch):
    """``impl(op)``: the vendor's implementation over the model, without its conditions on device and software."""
    for module in MODULES:
        monkeypatch.setattr(module, "npu", lambda name: getattr(vendor_model, name))

    def impl(op):
        found = next(i for i in ops.impls() if i.op == op and i.name == "npu")
        return replace(found, where=replace(found.where, caps=(), installed=None))

    return impl
