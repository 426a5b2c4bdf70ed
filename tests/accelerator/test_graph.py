import contextlib

import pytest
import torch

import hetero
from hetero.accelerator import Cap, Caps


def test_on_the_cpu_it_is_the_function_and_says_so():
    graph = hetero.device("cpu").graph(lambda x: x + 1, torch.zeros(2))
    assert torch.equal(graph(torch.ones(2)), torch.full((2,), 2.0))
    assert not graph.captured and "graph capture is no" in graph.why


class Recorder:
    """The part of a device module that capture needs, on CPU tensors: it replays by calling again."""

    def __init__(self):
        self.log = []
        self.CUDAGraph = lambda: self
        self.body = None

    def Stream(self, device):
        return self

    def current_stream(self):
        return self

    def wait_stream(self, other):
        self.log.append("wait")

    @contextlib.contextmanager
    def stream(self, stream):
        self.log.append("side stream")
        yield

    @contextlib.contextmanager
    def graph(self, graph):
        self.log.append("capture")
        yield

    def replay(self):
        self.log.append("replay")
        self.body()

    def device_count(self):
        return 1


def test_a_captured_graph_replays_on_static_tensors(plugins, fake):
    module = Recorder()
    backend = fake("acme", torch_types=("xpu",))
    backend.module = lambda: module
    backend.caps = lambda index: Caps(graph_capture=Cap("yes", value="CUDAGraph"))
    plugins(backend)
    out, seen = torch.zeros(2), []

    def fn(x):
        seen.append(x)
        return torch.add(x, 1, out=out)

    given = torch.ones(2)
    graph = hetero.device("acme").graph(fn, given)
    assert graph.captured and graph.why == ""
    assert module.log == ["wait", "side stream", "wait", "capture"]
    module.body = lambda: torch.add(seen[-1], 1, out=out)
    assert torch.equal(graph(torch.full((2,), 5.0)), torch.full((2,), 6.0))
    assert torch.equal(given, torch.ones(2)), "the caller's tensor is not the static input"
    with pytest.raises(ValueError, match=r"captured with torch.float32\[2\], called with torch.float32\[3\]"):
        graph(torch.ones(3))
    with pytest.raises(ValueError):
        graph()
