import os
import pty
import subprocess
import sys

from hetero.train.metrics.console import Console, describe

_TALK = """
import sys
from hetero.train.metrics.console import Console
console = Console(3)
for step in range(1, 2000):
    console.write({"step": step, "loss": 1.0})
console.close()
print("still here", file=sys.stderr)
"""


def test_plain_lines_without_a_terminal(capsys) -> None:
    console = Console(4)
    console.write({"step": 1, "epoch": 0.25, "loss": 2.0, "grad_norm": None, "learning_rate": 1e-3})
    console.say("hello")
    console.close()
    assert capsys.readouterr().out == "step 1/4  epoch 0.25  loss 2.0000  lr 0.001\nhello\n"


def test_describe_shows_what_is_known() -> None:
    row = {"loss": 1.5, "tokens_per_second": 12345.6, "mfu": 0.4, "skipped_steps": 2, "else": 1}
    assert describe(row) == "loss 1.5000  tok/s 12,346  mfu 40.0%  skipped 2"


def test_a_reader_that_went_away_stops_nothing() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _TALK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == "still here\n"
    assert process.returncode == 0


def test_a_bar_on_a_terminal() -> None:
    talk = """
from hetero.train.metrics.console import Console
console = Console(3)
assert console.every_step
console.say("a path/[0] stays as it is")
for step in (1, 2, 3):
    console.write({"step": step, "loss": 1.25, "learning_rate": 0.5})
console.write({"step": 3, "eval_loss": 1.5})
console.close()
"""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run([sys.executable, "-c", talk], stdin=theirs, stdout=theirs, env=env, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.returncode == 0
    assert "a path/[0] stays as it is" in shown
    assert "3/3" in shown
    assert "loss 1.2500  eval_loss 1.5000" in shown
