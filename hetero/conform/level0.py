"""Level 0: a backend plugin keeps the promises of :class:`hetero.accelerator.Backend`.

``run(backend)`` needs no kernels and, for the checks on the plugin itself, no chip: device checks are skipped
where the vendor is absent. The tests of every plugin call it, those that ``hetero new-backend`` writes too.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from hetero.accelerator import Backend, Cap, Caps, CommSpec, Device, Host, Peak, Probe
from hetero.accelerator.backend import check_api

#: What a probe may take, in seconds.
PROBE_SECONDS = 0.2


@dataclass(frozen=True)
class CheckResult:
    """One check: ``status`` is "pass", "fail" or "skip"; ``detail`` says what was seen, or why."""

    name: str
    status: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.status:4} {self.name}" + (f": {self.detail}" if self.detail else "")


class CheckFailed(Exception):
    """A promise is not kept; the message says which and how."""


def run(backend: Backend) -> list[CheckResult]:
    """Check ``backend``; every check runs, whatever the others say."""
    host = Host.here()
    results = [_check(name, call, backend, host) for name, call in _PLUGIN]
    absent = _why_no_device(backend, host)
    if absent:
        return results + [CheckResult(name, "skip", absent) for name, _ in _DEVICE]
    try:
        device = backend.device(0)
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything; it fails every check on the device
        return results + [
            CheckResult(name, "fail", f"{type(error).__name__}: {error}") for name, _ in _DEVICE
        ]
    return results + [_check(name, call, device) for name, call in _DEVICE]


def failures(results: Iterable[CheckResult]) -> list[CheckResult]:
    """The checks that failed."""
    return [r for r in results if r.status == "fail"]


def _check(name: str, call: Callable[..., str | None], *args: Any) -> CheckResult:
    try:
        return CheckResult(name, "pass", call(*args) or "")
    except CheckFailed as error:
        return CheckResult(name, "fail", str(error))
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything; it becomes the check's result
        return CheckResult(name, "fail", f"{type(error).__name__}: {error}")


def _require(condition: object, message: str) -> None:
    if not condition:
        raise CheckFailed(message)


def _why_no_device(backend: Backend, host: Host) -> str:
    try:
        probe = backend.probe(host)
        if probe.state != "found":
            return f"the vendor is {probe.state} here"
        backend.load()
        return "" if backend.device_count() > 0 else "no device is visible"
    except Exception as error:  # noqa: BLE001 - the checks on the plugin report it
        return f"the vendor cannot be used here: {type(error).__name__}: {error}"


# -- the plugin
def _attributes(backend: Backend, host: Host) -> str:
    _require(
        isinstance(backend.name, str) and backend.name.isidentifier(),
        f"name {backend.name!r} is no identifier",
    )
    _require(backend.torch_types, "torch_types is empty")
    for torch_type in backend.torch_types:
        _require(
            torch_type == torch_type.lower() and ":" not in torch_type,
            f"{torch_type!r} is no torch device type",
        )
    return f"{backend.name} on torch device type {', '.join(backend.torch_types)}"


def _api(backend: Backend, host: Host) -> str:
    problem = check_api(backend.name, backend.api, type(backend).__module__)
    _require(problem is None, problem or "")
    return "{}.{}".format(*backend.api)


def _probe(backend: Backend, host: Host) -> str:
    probe = backend.probe(host)
    _require(isinstance(probe, Probe), f"probe() returned {type(probe).__name__}")
    _require(probe.evidence, "a probe must say what it looked for, found or not: evidence is empty")
    _require(probe.state != "absent" or probe.install, "an absent backend must say what to install")
    _require(probe.state != "broken" or probe.error, "a broken backend must say why")
    _require(probe == backend.probe(host), "two probes of the same machine differ")
    return f"{probe.state}: {'; '.join(probe.evidence)}"


def _probe_time(backend: Backend, host: Host) -> str:
    seconds = []
    for _ in range(3):  # the machine may be busy: the best of three says what the probe needs
        start = time.perf_counter()
        backend.probe(Host.here())
        seconds.append(time.perf_counter() - start)
    best = min(seconds)
    _require(best < PROBE_SECONDS, f"{best * 1e3:.0f} ms, allowed are {PROBE_SECONDS * 1e3:.0f}")
    return f"{best * 1e3:.1f} ms"


def _probe_imports(backend: Backend, host: Host) -> None:
    own = {"hetero", type(backend).__module__.partition(".")[0]}
    with _imports() as asked:
        backend.probe(Host.here())
    foreign = sorted(asked - own - set(sys.stdlib_module_names))
    _require(not foreign, f"the probe imports {', '.join(foreign)}")


@contextlib.contextmanager
def _imports() -> Iterator[set[str]]:
    """Top-level names that are imported inside, those that were loaded long before too."""
    asked: set[str] = set()
    statement, function = builtins.__import__, importlib.import_module

    def by_statement(name: str, *args: Any, **kwargs: Any) -> Any:
        level = kwargs.get("level", args[3] if len(args) > 3 else 0)
        if not level:
            asked.add(name.partition(".")[0])
        return statement(name, *args, **kwargs)

    def by_function(name: str, package: str | None = None) -> Any:
        asked.add((package or name).partition(".")[0] if name.startswith(".") else name.partition(".")[0])
        return function(name, package)

    builtins.__import__, importlib.import_module = by_statement, by_function
    try:
        yield asked
    finally:
        builtins.__import__, importlib.import_module = statement, function


def _probe_contexts(backend: Backend, host: Host) -> None:
    before = list(_initialised())
    backend.probe(Host.here())
    _require(
        before == list(_initialised()), "the probe initialised a device: a forked child could not use it"
    )


def _initialised() -> Iterator[tuple[str, bool]]:
    for torch_type in ("cuda", torch._C._get_privateuse1_backend_name()):
        asked = getattr(getattr(torch, torch_type, None), "is_initialized", None)
        if asked is not None:
            yield torch_type, bool(asked())


def _data(backend: Backend, host: Host) -> str:
    env, comm, impls = backend.launch_env(), backend.comm(), list(backend.ops())
    _require(
        all(isinstance(x, str) for pair in env.items() for x in pair), "launch_env() must map str to str"
    )
    _require(comm is None or isinstance(comm, CommSpec), f"comm() returned {type(comm).__name__}")
    for impl in impls:
        for target in filter(None, (impl.forward, impl.backward)):
            module, _, attribute = target.partition(":")
            _require(
                attribute, f"{impl.op}={impl.name}: target {target!r} is not of the form module:attribute"
            )
            _require(
                importlib.util.find_spec(module), f"{impl.op}={impl.name}: there is no module {module!r}"
            )
    return f"collectives: {comm.backend if comm else 'none'}; {len(impls)} op implementation(s)"


# -- a device
def _identity(device: Device) -> str:
    _require(device.vendor == device.backend.name, f"vendor {device.vendor!r} is not the backend's name")
    _require(device.index == 0 and device.torch.type == device.type, f"device 0 is {device.torch}")
    _require(device.name and device.arch, "name and arch must not be empty")
    _require(
        all(isinstance(x, str) for pair in device.driver.items() for x in pair), "driver must map str to str"
    )
    _require(
        torch.ones(2, device=device.torch).device.type == device.type, "a tensor made on it is elsewhere"
    )
    return f"{device}: {device.name}, arch {device.arch}"


def _memory(device: Device) -> str:
    info = device.memory()
    for name, value in vars(info).items():
        ok = value is None or (isinstance(value, int) and value >= 0)
        _require(ok, f"memory().{name} is {value!r}: want bytes, or None where unknown")
    if info.free is not None and info.total is not None:
        _require(info.free <= info.total, f"{info.free} bytes free of {info.total}")
    return str(info)


def _events(device: Device) -> str:
    device.stream()
    start, end = device.event(), device.event()
    start.record()
    x = torch.ones(1024, device=device.torch)
    (x * 2).sum()
    end.record()
    device.synchronize()
    milliseconds = start.elapsed_time(end)
    _require(milliseconds >= 0, f"elapsed_time gave {milliseconds} ms")
    return f"{milliseconds:.3f} ms"


def _rng(device: Device) -> None:
    state = device.rng_state()
    _require(
        state.dtype == torch.uint8 and state.device.type == "cpu",
        f"rng_state is {state.dtype} on {state.device}",
    )
    first = torch.rand(8, device=device.torch).cpu()
    device.set_rng_state(state)
    again = torch.rand(8, device=device.torch).cpu()
    _require(torch.equal(first, again), "the same state gave other numbers")


def _caps(device: Device) -> str:
    caps = device.caps
    _require(isinstance(caps, Caps), f"caps is {type(caps).__name__}")
    for name, cap in caps.items():
        _require(isinstance(cap, Cap), f"caps.{name} is {type(cap).__name__}, not Cap")
    for name, peak in caps.peaks.items():
        _require(isinstance(peak, Peak), f"peak {name!r} is {type(peak).__name__}, not Peak")
    counts = [
        f"{sum(c.state == state for _, c in caps.items())} {state}"
        for state in ("yes", "emulated", "no", "unknown")
    ]
    return ", ".join(counts)


def _graph(device: Device) -> str:
    x = torch.arange(4.0, device=device.torch)
    graph = device.graph(lambda a: a * 2 + 1, x)
    got = graph(x + 1).cpu()
    _require(torch.equal(got, torch.tensor([3.0, 5.0, 7.0, 9.0])), f"replay gave {got.tolist()}")
    _require(graph.captured or graph.why, "a function that was not captured must say why")
    return "captured" if graph.captured else graph.why


def _explain(device: Device) -> None:
    with device.trace("level0"):
        text = device.explain()
    _require(device.name in text and "capabilities" in text, f"explain() says {text!r}")


_PLUGIN: tuple[tuple[str, Callable[..., str | None]], ...] = (
    ("attributes", _attributes),
    ("API version", _api),
    ("probe", _probe),
    ("probe within 200 ms", _probe_time),
    ("probe imports nothing", _probe_imports),
    ("probe opens no device", _probe_contexts),
    ("launch_env, comm, ops", _data),
)
_DEVICE: tuple[tuple[str, Callable[..., str | None]], ...] = (
    ("identity", _identity),
    ("memory", _memory),
    ("stream, event, synchronize", _events),
    ("RNG round trip", _rng),
    ("capabilities", _caps),
    ("graph", _graph),
    ("trace, explain", _explain),
)
