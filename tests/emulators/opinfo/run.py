"""torch's own sample inputs for its own operators, run on an emulated device and on the CPU: nobody here wrote them.

    python tests/emulators/opinfo/run.py npu OUT.jsonl [--samples N] [--dtypes float32,int64] [--only REGEX]

One line of JSON an operator, variant and dtype, with the first reason:

* ``pass``: outputs, and for float32 gradients, are the CPU's
* ``fail``: other numbers, shape or dtype than the CPU's
* ``absent``: the vendor's package has no such operator and would compute on the CPU
* ``missing``: it has one, and the emulator does not
* ``refused``: the device has no such dtype
* ``error``: anything else

Lines that the file already has are not run again, so a run that died goes on where it was; the operator that killed
it is noted as ``crash``. At the end the verdicts are counted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before torch is imported: without its task queue torch_npu raises an error at the call that made it.
os.environ.setdefault("TASK_QUEUE_ENABLE", "0")

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

#: Operators whose result is drawn at random, or uninitialised memory: shapes and dtypes are compared, not values.
RANDOM = re.compile(
    r"^(bernoulli|cauchy|dropout|empty|exponential|geometric|log_normal|multinomial|new_empty|normal|"
    r"nn\.functional\.(.*dropout.*|multi_head_attention_forward|rrelu|fractional_max_pool.*)|pca_lowrank|rand|randint|randn|randperm|svd_lowrank|uniform|"
    r"resize_|resize_as_|_native_batch_norm_legit)"
)
#: relative and absolute tolerance between two correct kernels of one dtype
CLOSE = {torch.float32: (2e-5, 2e-5), torch.bfloat16: (2e-2, 2e-2), torch.float16: (4e-3, 4e-3)}
ABSENT = re.compile(r"no kernel is registered for the NPU|not supported on NPU|not implemented", re.I)
MISSING = re.compile(r"aclop path|not in libopapi|not found")
REFUSED = re.compile(r"double|float64|complex|dtype|DT_", re.I)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("device")
    parser.add_argument("out", type=Path)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--dtypes", default="float32,bfloat16,int64,bool")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    done = _resume(given.out)
    with given.out.open("a") as out:
        for op, dtype in cases(given.dtypes.split(","), given.only):
            key = name_of(op, dtype)
            if key in done:
                continue
            out.write(json.dumps({"case": key, "verdict": "crash"}) + "\n")
            out.flush()
            verdict, why, count = check(op, dtype, given.device, given.samples)
            out.write(json.dumps({"case": key, "verdict": verdict, "why": why, "samples": count}) + "\n")
            out.flush()
    print(Counter(row["verdict"] for row in read(given.out).values()))


def name_of(op: OpInfo, dtype: torch.dtype) -> str:
    """Of a case: "nn.functional.silu float32"."""
    return f"{op.full_name} {str(dtype)[6:]}"


def _resume(path: Path) -> set[str]:
    return {json.loads(line)["case"] for line in path.read_text().splitlines()} if path.exists() else set()


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of each case."""
    return {row["case"]: row for row in map(json.loads, path.read_text().splitlines())}


def cases(dtypes: list[str], only: str = "") -> Iterator[tuple[OpInfo, torch.dtype]]:
    wanted = [getattr(torch, name) for name in dtypes]
    for op in op_db:
        if re.search(only, op.full_name):
            yield from ((op, dtype) for dtype in wanted if op.supports_dtype(dtype, "cpu"))


def check(op: OpInfo, dtype: torch.dtype, device: str, limit: int) -> tuple[str, str, int]:
    """Verdict, first reason and number of samples over the operator's samples, forward and (float32) backward."""
    differentiate = dtype == torch.float32 and op.supports_autograd
    count = 0
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=differentiate), limit):
        try:
            expected = _run(op, sample, None, differentiate)
        except Exception:  # noqa: BLE001 - the CPU itself refuses the sample
            continue
        count += 1
        try:
            found = _run(op, sample, device, differentiate)
        except Exception as error:  # noqa: BLE001 - any error is a verdict
            text = str(error)
            kinds = (("absent", ABSENT), ("missing", MISSING), ("refused", REFUSED))
            kind = next((name for name, pattern in kinds if pattern.search(text)), "error")
            return kind, _short(text), count
        wrong = _difference(op, expected, found)
        if wrong:
            return "fail", wrong, count
    return "pass", "", count


def _run(op: OpInfo, sample: SampleInput, device: str | None, differentiate: bool) -> list[torch.Tensor]:
    """Outputs, then gradients, on the CPU."""
    inputs: list[torch.Tensor] = []

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return device if device and isinstance(value, torch.device) else value
        moved = value.detach().to(device) if device else value.detach().clone()
        if value.requires_grad:
            inputs.append(moved.requires_grad_())
            moved = moved.view_as(moved)  # an in-place variant may not change a leaf
        return moved

    args = tree_map(move, (sample.input, *sample.args))
    kwargs = tree_map(move, sample.kwargs)
    if device and "device" in kwargs:
        kwargs["device"] = device
    torch.manual_seed(0)
    result = sample.output_process_fn_grad(op(*args, **kwargs))
    outputs = [value for value in tree_flatten(result)[0] if isinstance(value, torch.Tensor)]
    gradients: list[torch.Tensor] = []
    smooth = [value for value in outputs if value.requires_grad]
    if differentiate and smooth and inputs:
        weight = [torch.linspace(0.5, 1.5, v.numel()).reshape(v.shape).to(v.device, v.dtype) for v in smooth]
        found = torch.autograd.grad(smooth, inputs, weight, allow_unused=True)
        gradients = [g for g in found if g is not None]
    return [value.detach().cpu() for value in (*outputs, *gradients)]


def _difference(op: OpInfo, expected: list[torch.Tensor], found: list[torch.Tensor]) -> str:
    if len(expected) != len(found):
        return f"{len(found)} tensors, {len(expected)} on the CPU"
    for index, (want, got) in enumerate(zip(expected, found)):
        if want.shape != got.shape or want.dtype != got.dtype:
            return (
                f"tensor {index}: {tuple(got.shape)} {got.dtype}, on the CPU {tuple(want.shape)} {want.dtype}"
            )
        if RANDOM.search(op.name) or want.numel() == 0:
            continue
        relative, absolute = CLOSE.get(want.dtype, (0, 0))
        if want.dtype.is_complex or want.dtype == torch.float64:
            relative = absolute = 1e-5
        if not torch.allclose(got, want, rtol=relative, atol=absolute, equal_nan=True):
            apart = (got.to(torch.complex128) - want.to(torch.complex128)).abs().nan_to_num(torch.inf).max()
            return f"tensor {index} of shape {tuple(want.shape)}: off by {float(apart):.3g}"
    return ""


def _short(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "emulated CANN" in line or "aclnn" in line]
    return (named or lines or [""])[0][:200]


if __name__ == "__main__":
    main()
