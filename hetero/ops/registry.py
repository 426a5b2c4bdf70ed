"""The declared ops and, for each, the implementations that the backends found on this machine bring."""

from __future__ import annotations

import difflib
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from hetero.errors import OpError
from hetero.ops import policy
from hetero.ops.impl import KINDS, Impl

if TYPE_CHECKING:
    from hetero.accelerator import Backend
    from hetero.ops.spec import Op

_OPS: dict[str, Op] = {}
_EXTRA: list[Impl] = []
_found: dict[str, list[Impl]] | None = None
#: Backends whose ``ops()`` failed, with the reason: their kernels are missing, everyone else's work.
broken: dict[str, str] = {}


def add_op(op: Op) -> None:
    """Make ``op`` known (called by ``hetero.ops.library.declare``)."""
    if op.name in _OPS:
        raise OpError(f"op {op.name!r} is declared twice")
    _OPS[op.name] = op


def ops() -> list[str]:
    """Names of the declared ops."""
    return list(_OPS)


def op(name: str) -> Op:
    """The op called ``name``.

    Raises:
        OpError: there is none; the message has the nearest name.
    """
    if name not in _OPS:
        near = difflib.get_close_matches(name, _OPS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the ops are {', '.join(sorted(_OPS))}"
        raise OpError(f"there is no op {name!r}; {hint}")
    return _OPS[name]


def register(impl: Impl) -> None:
    """Add an implementation of your own. It is unproven, so pin it or record conformance for it."""
    op(impl.op)
    if any(i.name == impl.name and i.vendor == impl.vendor for i in impls(impl.op)):
        raise OpError(
            f"op {impl.op!r} already has an implementation {impl.name!r} for {impl.vendor or 'any device'}"
        )
    _EXTRA.append(impl)
    refresh()


def unregister(impl: Impl) -> None:
    """Take back what :func:`register` added."""
    _EXTRA.remove(impl)
    refresh()


def refresh() -> None:
    """Ask the backends again at the next use, and forget cached choices."""
    global _found
    _found = None
    broken.clear()
    policy.forget_choices()


def impls(op_name: str) -> list[Impl]:
    """Every implementation of an op, in the default order: by kind, then as the backends list them."""
    global _found
    if _found is None:
        _found = _collect()
    return _found.get(op_name, [])


def _collect() -> dict[str, list[Impl]]:
    from hetero.accelerator import registry as backends

    found: list[Impl] = list(_EXTRA)
    for record in backends.records():
        if record.found and record.backend is not None:
            found += _of_backend(record.name, record.backend)
    table: dict[str, list[Impl]] = {}
    for impl in sorted(found, key=lambda i: KINDS.index(i.kind)):
        table.setdefault(impl.op, []).append(impl)
    for name, declared in _OPS.items():
        target = f"{declared.forward.reference.__module__}:{declared.forward.reference.__qualname__}"
        backward = None
        if declared.backward is not None:
            backward = f"{declared.backward.reference.__module__}:{declared.backward.reference.__qualname__}"
        for pass_ in declared.passes():
            pass_.shapes_matter = any(i.where.asks_for_shapes for i in table.get(name, ()))
        table.setdefault(name, []).append(Impl(name, "reference", "reference", target, backward))
    return table


def _of_backend(vendor: str, backend: Backend) -> list[Impl]:
    try:
        brought = [replace(impl, vendor=vendor) for impl in backend.ops()]
        for impl in brought:
            op(impl.op)
    except Exception as error:  # noqa: BLE001 - whatever a plugin does, it is reported and the others go on
        broken[vendor] = f"{type(error).__name__}: {error}"
        told = f"backend {vendor!r} cannot list its ops ({broken[vendor]}); it runs without kernels"
        warnings.warn(told, stacklevel=2)
        return []
    return brought


def table() -> list[dict[str, str]]:
    """Every implementation known here: its op, kind, backend, and the dtypes it is proven for on this machine."""
    from hetero.accelerator import device
    from hetero.ops import conformance

    rows = []
    for name in ops():
        for impl in impls(name):
            if impl.kind == "reference":
                status = "defines the op"
            elif impl.vendor:
                status = conformance.summary(impl, device(f"{impl.vendor}:0"))
            else:
                status = "unproven"
            rows.append(
                {
                    "op": name,
                    "impl": impl.name,
                    "kind": impl.kind,
                    "backend": impl.vendor or "any",
                    "status": status,
                }
            )
    for vendor, why in broken.items():
        rows.append({"op": "(all)", "impl": "", "kind": "", "backend": vendor, "status": f"broken: {why}"})
    return rows
