"""Whose op it was, forward and backward."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from hetero.parity.events import distance
from hetero.parity.recorder import Recorder


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8, bias=False), nn.Linear(8, 4, bias=False)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x))) + x


class Net(nn.Module):
    def __init__(self, recompute=False) -> None:
        super().__init__()
        self.first, self.second, self.recompute = Block(), Block(), recompute

    def forward(self, x):
        if self.recompute:
            x = checkpoint(self.first, x, use_reentrant=False)
        else:
            x = self.first(x)
        return self.second(x=x)  # by name: no positional argument to hook


def record(model, loss=torch.sum):
    recorder = Recorder(model)
    with recorder.listening():
        loss(model(torch.randn(3, 4))).backward()
    return recorder.events


def test_ops_belong_to_their_modules():
    found = {(e.phase, e.module, e.op) for e in record(Net())}
    for block in ("first", "second"):
        assert ("forward", block, "aten.tanh") in found and ("backward", block, "aten.tanh_backward") in found
        assert ("forward", f"{block}.up", "aten.mm") in found and (
            "backward",
            f"{block}.up",
            "aten.mm",
        ) in found
        assert ("forward", block, "output") in found
    assert ("forward", "", "aten.sum") in found and not any(op.endswith(".detach") for *_, op in found)


def test_calls_are_counted():
    model = nn.Sequential(nn.Tanh())
    recorder = Recorder(model)
    for _ in range(2):
        with recorder.listening():
            model(torch.ones(2))
    assert [e.nth for e in recorder.events if e.op == "aten.tanh"] == [0, 1]
    assert not model[0]._forward_hooks and not model[0]._forward_pre_hooks


def test_recomputed_activations_belong_to_the_forward_pass():
    calls = [e for e in record(Net(recompute=True)) if e.module == "first" and e.op == "aten.tanh"]
    assert [(e.phase, e.nth) for e in calls] == [("forward", 0), ("forward", 1)]
    backward = {e.module for e in record(Net(recompute=True)) if e.op == "aten.tanh_backward"}
    assert backward == {"first", "second"}


def test_an_error_in_a_module_leaves_no_hook():
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("planted")

    model = nn.Sequential(Broken())
    recorder = Recorder(model)
    try:
        with recorder.listening():
            model(torch.ones(1))
    except RuntimeError as error:
        assert "planted" in str(error)
    assert recorder._inside == [] and not model[0]._forward_hooks


def test_padding_is_left_out(generator):
    recorder = Recorder(nn.Identity())
    recorder.real = torch.tensor([[True, True, False], [True, False, False]])
    x = torch.randn(2, 3, 4, generator=generator)
    other = torch.where(recorder.real[..., None], x, float("nan"))
    for tensor in (x, other, x.reshape(6, 4), other.reshape(6, 4)):
        recorder.note("forward", "", "op", tensor)
    heads = [t[:, None].expand(2, 5, 3, 4) for t in (x, other)]
    for tensor in heads:
        recorder.note("forward", "", "op", tensor)
    for i in (0, 2, 4):
        assert distance(*recorder.events[i : i + 2]) == 0 and recorder.events[i].norm > 0
