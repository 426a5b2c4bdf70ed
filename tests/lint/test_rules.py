import textwrap

import pytest

from hetero.lint import RULES, check_source


def rules(source):
    return [f.rule for f in check_source("import torch\n" + textwrap.dedent(source))]


LEAKS = [
    ("torch.cuda.synchronize()", "device-module", "hetero.device().synchronize()"),
    ("torch.cuda.amp.autocast(enabled=True)", "device-module", "torch.autocast(device_type="),
    ("n = torch.cuda.max_memory_allocated() / 2", "device-module", "hetero.device().memory().peak"),
    ("torch.npu.current_stream()", "device-module", "current_stream()"),
    ("m = torch.cuda", "device-module", "torch.get_device_module"),
    ("with torch.cuda.nvtx.range('x'): pass", "device-module", "hetero.device().trace(name)"),
    ("from torch import cuda", "device-module", "hetero.device()"),
    ("from torch.cuda import Event, memory_allocated as m", "device-module", "hetero.device()"),
    ("import torch.cuda as tc", "device-module", "hetero.device()"),
    ("x.cuda()", "device-method", ".to(hetero.device().torch)"),
    ("model.half().cuda(0)", "device-method", ".to(hetero.device().torch)"),
    ("x = torch.zeros(2, device='cuda')", "device-string", "hetero.device().torch"),
    ("d = torch.device('cuda:1')", "device-string", "hetero.device().torch"),
    ("x.to('cuda', torch.bfloat16)", "device-string", "hetero.device().torch"),
    ("def f(x, device='cuda'): pass", "device-string", "hetero.device().torch"),
    ("def f(x, *, device: str = 'npu'): pass", "device-string", "hetero.device().torch"),
    ("torch.load(p, map_location='cuda:0')", "device-string", "hetero.device().torch"),
    ("self_device = f'cuda:{rank}'", "device-string", "hetero.device().torch"),
    ("class A:\n    device: str = 'cuda'", "device-string", "hetero.device().torch"),
    ("f = torch.amp.custom_fwd(device_type='cuda')", "device-type", "x.device.type"),
    ("torch.autocast('cuda', dtype=torch.bfloat16)", "device-type", "x.device.type"),
    ("torch.amp.GradScaler('cuda')", "device-type", "x.device.type"),
    ("init_device_mesh('cuda', (2,))", "device-type", "x.device.type"),
    ("if x.device.type == 'cuda': pass", "device-compare", "hetero.device_of(x).caps"),
    ("if 'npu' == device_type: pass", "device-compare", "hetero.device_of(x).caps"),
    ("if x.is_cuda: pass", "device-compare", "hetero.device_of(x).caps"),
    ("torch.distributed.init_process_group('nccl')", "group-backend", "hetero.comm"),
    ("dist.init_process_group(backend='cpu:gloo,cuda:nccl')", "group-backend", "hetero.comm"),
    ("dist.new_group(ranks, backend='hccl')", "group-backend", "hetero.comm"),
    ("ddp_backend = 'nccl'", "group-backend", "hetero.comm"),
    ("if dist.get_backend() == 'nccl': pass", "group-backend", "hetero.comm"),
    ("PEAK_FLOPS = 312e12", "peak-constant", "caps.peak("),
    ("peak_flops = {'A100': 312 * 10**12}", "peak-constant", "caps.peak("),
    ("def mfu(t, peak=989e12): pass", "peak-constant", "caps.peak("),
    ("import torch_npu", "vendor-import", "hetero.device('ascend')"),
    ("from torch_supa import supa", "vendor-import", "hetero.device('biren')"),
]


@pytest.mark.parametrize("source, rule, replacement", LEAKS)
def test_a_leak_is_found_with_its_replacement(source, rule, replacement):
    found = check_source("import torch\n" + source)
    assert {f.rule for f in found} == {rule}, found
    assert all(replacement in f.replacement for f in found)


def test_every_rule_has_an_example():
    assert {rule for _, rule, _ in LEAKS} == set(RULES)


@pytest.mark.parametrize(
    "source",
    [
        "hetero.device('cuda').synchronize()",  # a vendor's name, not a device type
        "torch.accelerator.synchronize()",
        "x.to(y)",
        "x.to('cpu')",
        "device = 'cpu'",
        "text = 'torch.cuda.synchronize() and .cuda() and nccl'",
        "# torch.cuda.synchronize()",
        '"""torch.cuda.is_available() is what others call."""',
        "torch.backends.cudnn.enabled",
        "def cuda(): pass\ncuda()",
        "names = ['cuda', 'npu']",
        "if vendor == 'cuda': pass",
        "dist.init_process_group('gloo')",
        "backend = 'flash'",
        "peak_lr = 3e-4",
        "flops = 2 * n * k",
        "import torch_npuzzle",
        "from . import cuda",
    ],
)
def test_what_is_no_leak(source):
    assert rules(source) == []


def test_aliases_are_followed():
    assert rules("import torch as t\nt.cuda.synchronize()") == ["device-module"]
    assert rules("def f():\n    import torch as q\n    q.cuda.empty_cache()") == ["device-module"]


def test_an_imported_name_is_reported_where_it_was_imported_not_at_each_use():
    assert rules("from torch.cuda import Event\na = Event()\nb = Event()") == ["device-module"]
    assert len(rules("from torch import cuda\ncuda.synchronize()")) == 2


def test_a_chain_is_one_finding_at_its_place():
    (found,) = check_source("import torch\n\nx = 1; torch.cuda.memory.empty_cache()\n", "a.py")
    assert (found.line, found.column, found.file) == (3, 8, "a.py")
    assert str(found).startswith("a.py:3:8: device-module: torch.cuda.memory.empty_cache\n    use ")


def test_findings_come_in_order_of_place():
    found = check_source("import torch\ny.cuda(); x.cuda()\ntorch.cuda.synchronize()\n")
    assert [(f.line, f.column) for f in found] == [(2, 1), (2, 11), (3, 1)]


def test_the_comment_lets_a_line_through_and_only_that_line():
    assert rules("x.cuda()  # hetero: allow, the vendor's own test\ny.cuda()") == ["device-method"]
    assert rules("f(\n    1,\n    device='cuda',  # hetero: allow\n)") == []
    assert rules("text = '# hetero: allow'; x.cuda()") == ["device-method"]
