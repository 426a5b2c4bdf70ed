"""Every operator that torch has samples for, on the emulated NPU: it passes, or is known not to and why."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

KNOWN: dict[str, str] = json.loads(Path(__file__).with_name("known.json").read_text())

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})


@pytest.mark.timeout(900)
def test_one_sample_of_every_operator() -> None:
    """Forward and backward in float32. What the vendor's package lacks is counted, and cannot pass."""
    from tests.emulators.opinfo.run import cases, check, name_of

    verdicts: dict[str, tuple[str, str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op, dtype in cases(["float32"]):
            verdict, why, count = check(op, dtype, "npu", limit=1)
            if count:
                verdicts[name_of(op, dtype)] = (verdict, why)
    wrong = {name: v for name, v in verdicts.items() if v[0] not in ("pass", "absent")}
    news = {name: v for name, v in wrong.items() if name not in KNOWN}
    assert not news, "\n".join(f"{name}: {verdict}: {why}" for name, (verdict, why) in news.items())
    healed = sorted(KNOWN.keys() - wrong.keys())
    assert not healed, f"these pass now: take them out of known.json: {healed}"
    assert sum(v[0] == "pass" for v in verdicts.values()) >= 500
