"""Pytest: ``@pytest.mark.emulated("ascend", devices=4)`` runs a test in an emulated process.

On the command line or in ``addopts``: ``-p hetero.emulators.pytest_plugin``. A marked test (function, class or a
whole file through ``pytestmark``) is an ordinary test with fixtures and parameters, but it runs in another process
whose environment is emulated, and is reported as if it ran here. All tests with the same marker arguments share a
process, which is started for the first of them: importing torch with a vendor's package takes seconds. A test that
ends its process fails, and the next one gets a new process. Where pytest itself runs emulated with the same
settings (``hetero emulate ascend -- pytest``) marked tests run in place.

Arguments of the marker: name of the emulator, its settings (``hetero emulate NAME --help``), and ``env={...}`` for
other variables of the process. A file of marked tests is imported in both processes: use no device at import.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

_WORKER = "--emulated-worker"
_MAX_WORKERS = 3
#: Seconds that an emulated process has to report a test that took too long, before it is ended.
_GRACE = 5.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_WORKER, default=None, help="internal: file descriptors of an emulated process")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "emulated(name, env={}, **settings): run in a process of its own, emulated "
        "(hetero.emulators.pytest_plugin)",
    )
    given = config.getoption(_WORKER)
    config.pluginmanager.register(_Worker(config, given) if given else _Tests(config), "emulated-tests")


class _Tests:
    """In the process of the user: sends marked tests away and reports what comes back."""

    def __init__(self, config: pytest.Config) -> None:
        from hetero.emulators.pytest_process import Process

        self.config = config
        self._start = Process
        self._processes: dict[str, Process] = {}
        self._keys: dict[str, str] = {}
        self._files: dict[str, list[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            key = self._keys[item.nodeid] = _key(item)
            if key and str(item.path) not in self._files.setdefault(key, []):
                self._files[key].append(str(item.path))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        key = self._keys.get(item.nodeid, "")
        if not key or _in_place(key):
            return None
        same = nextitem is not None and self._keys.get(nextitem.nodeid) == key
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._run(key, item, nextitem.nodeid if same and nextitem else None):
            hook.pytest_runtest_logreport(report=report)
        # What earlier tests set up here for folders and files ends where the next test is elsewhere.
        call = pytest.CallInfo.from_call(
            lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown"
        )
        if call.excinfo:
            report = hook.pytest_runtest_makereport(item=item, call=call)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, key: str, item: pytest.Item, following: str | None) -> Iterator[pytest.TestReport]:
        from hetero.errors import EmulatorError

        process = self._processes.pop(key, None)
        try:
            if process is None:
                while len(self._processes) >= _MAX_WORKERS:
                    self._processes.pop(next(iter(self._processes))).close()
                process = self._start(self.config, json.loads(key), self._files[key])
            self._processes[key] = process  # the one used last is last
            process.send(item.nodeid, following)
            try:
                yield from map(self._report, process.reports())
            except (
                pytest.fail.Exception
            ) as error:  # pytest-timeout's; there the same time is up, with a traceback
                yield from map(self._report, process.reports(_GRACE, str(error)))
        except EmulatorError as error:
            if process is not None:
                self._processes.pop(key, None)
                process.kill()
            yield pytest.TestReport(
                item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", str(error), "call"
            )

    def _report(self, data: dict[str, Any]) -> pytest.TestReport:
        return self.config.hook.pytest_report_from_serializable(config=self.config, data=data)

    def pytest_sessionfinish(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()


def _key(item: pytest.Item) -> str:
    """What tells emulated processes apart, as JSON; empty for a test that runs here."""
    marker = item.get_closest_marker("emulated")
    if marker is None:
        return ""
    settings = {k: v for k, v in marker.kwargs.items() if k != "env"}
    return json.dumps([*marker.args, marker.kwargs.get("env", {}), settings], sort_keys=True)


def _in_place(key: str) -> bool:
    """Whether this process is already what the test asks for."""
    from hetero.emulators import emulator, running

    name, env, settings = json.loads(key)
    if running() != name:
        return False
    known = emulator(name).settings
    wanted = env | {known[k].variable: str(v) for k, v in settings.items() if k in known}
    return all(os.environ.get(k) == v for k, v in wanted.items())


class _Worker:
    """In the emulated process: runs the tests it is told to."""

    def __init__(self, config: pytest.Config, fds: str) -> None:
        reading, writing = map(int, fds.split(","))
        self.config = config
        self._requests = os.fdopen(reading, "r")
        self._replies = os.fdopen(writing, "wb")
        self._broken: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken.append(report.longreprtext)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for line in self._requests:
            item, following = (items.get(name) for name in json.loads(line))
            if item is None:
                self._reply({"missing": "\n".join(self._broken)})
                continue
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._reply({"done": True})
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self._reply({"report": data})

    def _reply(self, message: dict[str, Any]) -> None:
        pickle.dump(message, self._replies)
        self._replies.flush()
