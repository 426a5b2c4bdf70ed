"""``--with-compile``, and the table of ratios at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

#: Lines of the table: (case, {column: value}).
ROWS = pytest.StashKey[list[tuple[str, dict[str, float]]]]()
COLUMNS = ("ms", "limit", "eager", "compile", "GB/s")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--with-compile", action="store_true", help="also measure torch.compile (slow to start)")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Iterator[dict[str, float]]:
    """Filled by a test, printed when all are done."""
    columns: dict[str, float] = {}
    yield columns
    request.config.stash[ROWS].append((request.node.name.removeprefix("test_op"), columns))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = [(name, columns) for name, columns in config.stash[ROWS] if columns]
    if not rows:
        return
    write = terminalreporter.write_line
    terminalreporter.section(f"hetero.ops on the CPU, {torch.get_num_threads()} thread(s)")
    write(
        "limit: time at the copy bandwidth of the same rounds / our time; eager, compile: their time / ours (medians)"
    )
    width = max(len(name) for name, _ in rows)
    write(f"{'':{width}} " + " ".join(f"{c:>8}" for c in COLUMNS))
    for name, columns in rows:
        cells = (f"{columns[c]:8.2f}" if c in columns else f"{'-':>8}" for c in COLUMNS)
        write(f"{name:{width}} " + " ".join(cells))
