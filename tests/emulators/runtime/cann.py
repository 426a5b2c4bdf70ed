"""The emulated runtime through its C interface, without torch: one fresh process a test, a tenth of a second each.

``@in_process(faults="oom@2")`` makes a test run in a process whose ``HETERO_CANN_FAULTS`` is that, with the library
loaded as :data:`cann`. As a program: ``cann.py FILE FUNCTION``.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[3]
_TEXTS = ("aclGetRecentErrMsg", "aclrtGetSocName")

# acl_rt.h
H2H, H2D, D2H, D2D = range(4)
MALLOC_POLICY = 0
RUNNING, DONE = 0, 1  # of an event that is asked for
PARAM, DEVICE_ID, NO_CONTEXT, STREAM, HANDLE = 107000, 107001, 107002, 107003, 107017
UNSUPPORTED, OUT_OF_MEMORY, MEMORY_FREE = 200001, 207001, 207002
NOT_COMPLETE, LOST, AICORE, SYNC_TIMEOUT = 507006, 507010, 507015, 507046


class CannError(Exception):
    """A call returned ``code``; the text is what aclGetRecentErrMsg then gave."""

    def __init__(self, function: str, code: int, message: str) -> None:
        super().__init__(f"{function}: {code}: {message}")
        self.code = code
        self.message = message


class Cann:
    """``cann.aclrtX(...)`` calls the function and raises :class:`CannError` unless it returns 0."""

    @functools.cached_property
    def library(self) -> ctypes.CDLL:
        return ctypes.CDLL("libascendcl.so")

    def __getattr__(self, name: str) -> Callable[..., None]:
        function = getattr(self.library, name)

        def call(*args: Any) -> None:
            code = function(*(ctypes.c_void_p(a) if isinstance(a, int) and a > 1 << 30 else a for a in args))
            if code:
                raise CannError(name, code, self.message())

        return call

    def message(self) -> str:
        function = self.library.aclGetRecentErrMsg
        function.restype = ctypes.c_char_p
        return function().decode()

    # What nearly every test does.
    def device(self, index: int = 0) -> None:
        self.aclrtSetDevice(index)

    def malloc(self, size: int = 4096) -> int:
        return self._made("aclrtMalloc", ctypes.c_size_t(size), MALLOC_POLICY)

    def pinned(self, size: int = 4096) -> int:
        return self._made("aclrtMallocHost", ctypes.c_size_t(size))

    def stream(self) -> int:
        return self._made("aclrtCreateStream")

    def event(self) -> int:
        return self._made("aclrtCreateEvent")

    def _made(self, name: str, *args: Any) -> int:
        out = ctypes.c_void_p()
        getattr(self, name)(ctypes.byref(out), *args)
        assert out.value
        return out.value

    def number(self, name: str, *args: Any, kind: Any = ctypes.c_int32) -> int:
        """What a function writes to its last argument."""
        out = kind()
        getattr(self, name)(*args, ctypes.byref(out))
        return int(out.value)

    def copy(self, dst: int, src: int, size: int, kind: int, stream: int | None = None) -> None:
        room, count = ctypes.c_size_t(size), ctypes.c_size_t(size)
        if stream is None:
            self.aclrtMemcpy(dst, room, src, count, kind)
        else:
            self.aclrtMemcpyAsync(dst, room, src, count, kind, stream)

    def fill(self, data: int, value: int, size: int, stream: int | None = None) -> None:
        room, count = ctypes.c_size_t(size), ctypes.c_size_t(size)
        if stream is None:
            self.aclrtMemset(data, room, value, count)
        else:
            self.aclrtMemsetAsync(data, room, value, count, stream)

    def read(self, data: int, size: int = 1) -> bytes:
        """Bytes of device memory, copied by the host."""
        buffer = ctypes.create_string_buffer(size)
        self.copy(ctypes.addressof(buffer), data, size, D2H)
        return buffer.raw


cann = Cann()
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def refused(code: int, text: str, call: Callable[..., Any], *args: Any) -> None:
    """``call(*args)`` fails with ``code`` and a message that has ``text`` in it."""
    try:
        call(*args)
    except CannError as error:
        assert error.code == code and text in error.message, error
        return
    raise AssertionError(f"no error, expected {code} with {text!r}")


def libraries() -> Path:
    """The folder of the emulator's libraries; the test is skipped where they cannot be made."""
    import pytest

    from hetero.emulators import emulator
    from hetero.errors import EmulatorError

    try:
        return emulator("ascend").prepare() / "lib64"
    except EmulatorError as error:
        pytest.skip(str(error))


def environment(settings: Mapping[str, Any], env: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HETERO_CANN_") and k != "RANK"}
    given = {f"HETERO_CANN_{name.upper()}": str(value) for name, value in settings.items()}
    return {**kept, "LD_LIBRARY_PATH": str(libraries()), "PYTHONPATH": str(_ROOT), **given, **(env or {})}


def start(function: Callable[..., Any], env: Mapping[str, str], *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, function.__code__.co_filename, function.__name__, *args]
    return subprocess.Popen(
        command, env=dict(env), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def in_process(
    *,
    code: int = 0,
    says: str = "",
    seconds: float = 30,
    env: Mapping[str, str] | None = None,
    **settings: Any,
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Run the test in a process of its own, which must end in time, with ``code``, having printed ``says``."""

    def decorate(test: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            process = start(test, environment(settings, env))
            try:
                out, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"did not end in {seconds} s: {process.communicate()[0]}") from None
            assert process.returncode == code, f"exit code {process.returncode}:\n{out}"
            assert says in out, out

        return run

    return decorate


def _main(file: str, function: str, *args: str) -> None:
    spec = importlib.util.spec_from_file_location("test_file", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    test = getattr(module, function)
    getattr(test, "__wrapped__", test)(*args)


if __name__ == "__main__":
    _main(*sys.argv[1:])
