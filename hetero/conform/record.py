"""Writing down what passed, in the form that op selection reads."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from hetero.accelerator import Device
from hetero.conform.case import Case, grouped, verdict
from hetero.files import write_whole
from hetero.ops import conformance, registry


def record(found: Sequence[Case], device: Device, path: Path) -> int:
    """Write what passed in full to ``path`` (added to what it has for other architectures); return how many rows.

    A failed case leaves its (op, implementation, dtype, direction) out, and so does one of which all was skipped.
    """
    arch = conformance.arch_key(device)
    versions = {(i.op, i.name): i.version for n in registry.ops() for i in registry.impls(n)}
    groups = grouped(found)
    rows = []
    for (op, impl, dtype, direction), group in groups.items():
        if verdict(group) != "pass":
            continue
        ran = [case for case in group if case.passed]
        rows.append(
            {
                "op": op, "impl": impl, "version": versions.get((op, impl), torch.__version__), "arch": arch,
                "dtype": dtype, "direction": direction, "cases": len(ran),
                "worst": round(max(c.ratio for c in ran), 3),
                "torch": torch.__version__, "date": time.strftime("%Y-%m-%d"),
            }
        )  # fmt: skip
    touched = {(op, impl) for op, impl, *_ in groups}
    kept = conformance.read(path) if path.is_file() else []
    kept = [r for r in kept if r["arch"] != arch or (r["op"], r["impl"]) not in touched]
    lines = ",\n".join("  " + json.dumps(r) for r in [*kept, *rows])
    write_whole(path, f'{{"schema": {conformance.SCHEMA}, "records": [\n{lines}\n]}}\n')
    conformance.forget()
    registry.refresh()
    return len(rows)
