"""The C interface of an operator, called by itself: what it refuses, and forms that torch_npu calls no more."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from tests.emulators.opapi.against_cpu import numbers

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

CODES = {torch.float32: 0, torch.int8: 2, torch.int64: 9}
BAD_PARAMETER = 161002


def _describe(library: ctypes.CDLL, x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        library.aclCreateTensor.restype = ctypes.c_void_p
        sizes = (ctypes.c_int64 * max(x.dim(), 1))(*x.shape)
        strides = (ctypes.c_int64 * max(x.dim(), 1))(*x.stride())
        where = ctypes.c_void_p(x.data_ptr())
        no = ctypes.c_int64(0)
        made = library.aclCreateTensor(
            sizes,
            ctypes.c_uint64(x.dim()),
            CODES[x.dtype],
            strides,
            no,
            2,
            sizes,
            ctypes.c_uint64(x.dim()),
            where,
        )
        return ctypes.c_void_p(made)
    if isinstance(x, list):
        library.aclCreateTensorList.restype = ctypes.c_void_p
        made = [_describe(library, one) for one in x]
        return ctypes.c_void_p(
            library.aclCreateTensorList(
                (ctypes.c_void_p * len(made))(*(m.value for m in made)), ctypes.c_uint64(len(made))
            )
        )
    return x


def call(name: str, *arguments: Any) -> tuple[int, str]:
    """Both halves of an operator on the default stream; the code of the one that refused, and why."""
    library, runtime = ctypes.CDLL("libopapi.so"), ctypes.CDLL("libascendcl.so")
    runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
    bytes_, executor = ctypes.c_uint64(), ctypes.c_void_p()
    described = [_describe(library, a) for a in arguments]
    prepare, launch = getattr(library, name + "GetWorkspaceSize"), getattr(library, name)
    torch.npu.synchronize()
    code = prepare(*described, ctypes.byref(bytes_), ctypes.byref(executor))
    code = code or launch(None, bytes_, executor, None) or runtime.aclrtSynchronizeStream(None)
    return code, (runtime.aclGetRecentErrMsg() or b"").decode() if code else ""


def _npu(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.npu() for t in tensors]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Add", torch.add),
        ("Sub", torch.sub),
        ("Mul", torch.mul),
        ("Div", torch.div),
        ("Pow", torch.pow),
        ("Maximum", torch.clamp_min),
        ("Minimum", torch.clamp_max),
    ],
)
def test_older_foreach_with_its_number_in_a_tensor(name: str, expected: Any) -> None:
    a, b = numbers(3, 4), numbers(5)
    outs = _npu(torch.empty(3, 4), torch.empty(5))
    assert call(f"aclnnForeach{name}Scalar", _npu(a, b), torch.tensor(2.0).npu(), outs) == (0, "")
    for x, out in zip((a, b), outs, strict=True):
        torch.testing.assert_close(out.cpu(), expected(x, 2.0))


@pytest.mark.parametrize(("name", "expected"), [("Add", torch.add), ("Sub", torch.sub)])
def test_older_foreach_with_alpha_in_a_tensor(name: str, expected: Any) -> None:
    a, b, out = numbers(3, 4), numbers(3, 4, seed=1), torch.empty(3, 4).npu()
    assert call(f"aclnnForeach{name}List", _npu(a), _npu(b), torch.tensor(2.0).npu(), [out]) == (0, "")
    torch.testing.assert_close(out.cpu(), expected(a, b, alpha=2))


@pytest.mark.parametrize(("name", "expected"), [("Addcmul", torch.addcmul), ("Addcdiv", torch.addcdiv)])
def test_older_foreach_of_three_lists(name: str, expected: Any) -> None:
    a, b, c = numbers(3), numbers(3, seed=1), numbers(3, seed=2).abs() + 0.1
    out = torch.empty(3).npu()
    assert call(f"aclnnForeach{name}Scalar", _npu(a), _npu(b), _npu(c), torch.tensor(2.0).npu(), [out]) == (
        0,
        "",
    )
    torch.testing.assert_close(out.cpu(), expected(a, b, c, value=2))


@pytest.mark.parametrize(
    ("mode", "expected"), [(1, torch.round), (2, torch.floor), (3, torch.ceil), (5, torch.trunc)]
)
def test_older_foreach_rounding(mode: int, expected: Any) -> None:
    a, out = numbers(9) * 3, torch.empty(9).npu()
    assert call("aclnnForeachRoundOffNumber", _npu(a), torch.tensor(mode, dtype=torch.int8).npu(), [out]) == (
        0,
        "",
    )
    torch.testing.assert_close(out.cpu(), expected(a))


def test_rounding_that_there_is_not() -> None:
    code, why = call(
        "aclnnForeachRoundOffNumber",
        _npu(numbers(3)),
        torch.tensor(4, dtype=torch.int8).npu(),
        _npu(numbers(3)),
    )
    assert (
        code
        and "aclnnForeachRoundOffNumber (Float [3], Char [], Float [3]): there is no rounding mode 4" in why
    )


@pytest.mark.parametrize("name", ["aclnnLogSigmoid", "aclnnHardswishBackward"])
def test_operators_that_torch_npu_has_newer_forms_of(name: str) -> None:
    a, g, out = numbers(4), numbers(4, seed=1), torch.empty(4).npu()
    given = [g, a] if "Backward" in name else [a]
    assert call(name, *_npu(*given), out) == (0, "")
    expected = (
        torch.ops.aten.hardswish_backward(g, a) if "Backward" in name else torch.nn.functional.logsigmoid(a)
    )
    torch.testing.assert_close(out.cpu(), expected)


def test_split_with_size() -> None:
    """torch_npu calls it for wide rows only."""
    sizes = (ctypes.c_int64 * 2)(1, 3)
    library = ctypes.CDLL("libopapi.so")
    library.aclCreateIntArray.restype = ctypes.c_void_p
    described = ctypes.c_void_p(library.aclCreateIntArray(sizes, ctypes.c_uint64(2)))
    a, outs = numbers(2, 4), _npu(torch.empty(2, 1), torch.empty(2, 3))
    assert call("aclnnSplitWithSize", a.npu(), described, ctypes.c_int64(1), outs) == (0, "")
    torch.testing.assert_close([o.cpu() for o in outs], list(a.split([1, 3], 1)))


def test_memory_of_the_host_is_refused_with_the_operator_and_the_shapes() -> None:
    code, why = call("aclnnExp", numbers(2, 3), torch.empty(2, 3).npu())
    assert code == BAD_PARAMETER
    assert why.endswith("aclnnExp (Float [2, 3]): the memory of a tensor of shape [2, 3] is host memory")


def test_an_output_of_another_shape_is_named() -> None:
    code, why = call("aclnnExp", numbers(2, 3).npu(), torch.empty(3, 2).npu())
    assert (
        code
        and "aclnnExp (Float [2, 3], Float [3, 2]): its output has room for [3, 2], the result is [2, 3]"
        in why
    )


def test_a_tensor_that_is_missing_is_named() -> None:
    code, why = call("aclnnExp", ctypes.c_void_p(None), torch.empty(3, 2).npu())
    assert code == BAD_PARAMETER and "aclnnExp (): a tensor that it needs is null" in why


def test_an_operator_without_its_executor() -> None:
    assert ctypes.CDLL("libopapi.so").aclnnExp(None, ctypes.c_uint64(0), None, None) == 161001


def test_an_operator_that_is_missing_is_named_where_torch_npu_falls_back_to_an_older_one() -> None:
    """torch_npu says so in its log, and nowhere else."""
    runtime = ctypes.CDLL("libascendcl.so")
    runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
    words = b"[PTA]:%s or %sGetWorkspaceSize not in %s, or %s not found. Will call %s"
    runtime.aclAppLog(
        2, b"f", b"f", 1, words, b"aclnnNone", b"aclnnNone", b"libopapi.so", b"libopapi.so", b"acl_op::none()"
    )
    assert runtime.aclopCompileAndExecute(b"None", *([None] * 9), None, None)
    assert b"operator None was asked for on the aclop path" in (why := runtime.aclGetRecentErrMsg())
    assert b"aclnnNone is missing (docs/emulators.md" in why


def test_an_operator_that_torch_npu_has_in_its_older_form_only() -> None:
    with pytest.raises(RuntimeError, match=r"StridedSlice was asked for on the aclop path.*on this SoC"):
        torch.ops.npu.npu_indexing(numbers(4, 4).npu(), [0, 0], [2, 2], [1, 1])


@pytest.mark.parametrize("refused", ["silu", "nn.functional.gelu", "trunc", "std"])
def test_float64_is_refused_by_operators_that_are_documented_without_it(refused: str) -> None:
    x = torch.zeros(3, dtype=torch.float64, device="npu")
    function = getattr(torch.nn.functional, refused.split(".")[-1], None) or getattr(torch, refused)
    with pytest.raises(RuntimeError, match=r"aclnn\w+ \(Double \[3\].*float64 is not among the data types"):
        function(x)


def test_float64_is_taken_by_operators_that_are_documented_with_it() -> None:
    x = torch.ones(3, dtype=torch.float64, device="npu")
    assert (x + x * 2).exp().sum().cpu().dtype == torch.float64
