import os
import signal
import subprocess
import sys

from hetero.train.signals import StopSignals

_TWICE = """
import os, signal, time
from hetero.train.signals import StopSignals
with StopSignals() as signals:
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals.received == signal.SIGTERM
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(30)
"""


def test_first_is_noted_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        assert signals.received == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_second_exits_at_once() -> None:
    assert subprocess.run([sys.executable, "-c", _TWICE], timeout=30).returncode == 128 + signal.SIGINT
