"""The parent's side of :mod:`hetero.train.data.render_worker`: templates run in a limited process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hetero.errors import DataError

SECONDS = 1.0
MEMORY_BYTES = 512 << 20
CHARACTERS = 16 << 20

# What an interpreter needs to start; nothing else of our environment (tokens, keys) is shown to a template.
_ENVIRONMENT = ("PATH", "PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG")

Rendered = tuple[str, list[tuple[int, int]]]


@dataclass
class Job:
    """One conversation to render.

    Attributes:
        messages: what the template sees as `messages`.
        variables: what else it sees.
        renders: (turns, add_generation_prompt) pairs: render the first `turns` messages.
    """

    messages: Sequence[dict[str, Any]]
    variables: dict[str, Any]
    renders: Sequence[tuple[int, bool]]


class Renderer:
    """Renders one chat template. The process starts at the first use and ends with `close` or with ours.

    Limits: `SECONDS` of processor time and `MEMORY_BYTES` of memory a conversation, `CHARACTERS` of output.
    """

    def __init__(self, template: str) -> None:
        self.template = template
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def render(self, jobs: Sequence[Job]) -> list[list[Rendered] | DataError]:
        """Render conversations, all in one request: a round trip costs more than a template.

        Returns:
            For each job, (text, spans) for each of its renders, where a span is the (start, end) of
            characters inside `{% generation %}`; or the error with which the template failed, refused the
            conversation or exceeded a limit. After a limit was exceeded, nothing more follows.
        """
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps([asdict(job) for job in jobs]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            death = DataError(self._death(process.wait()))
            return [death] if len(jobs) == 1 else self._one_by_one(jobs)
        answers = json.loads(line)
        if len(answers) < len(jobs):
            return self._one_by_one(jobs)
        return [self._result(answer) for answer in answers]

    def _one_by_one(self, jobs: Sequence[Job]) -> list[list[Rendered] | DataError]:
        """Find the job that broke a limit: those before it are rendered, those after it are not tried."""
        results: list[list[Rendered] | DataError] = []
        for job in jobs:
            results += self.render([job])
            if isinstance(results[-1], DataError):
                break
        return results

    @staticmethod
    def _result(answer: dict[str, Any]) -> list[Rendered] | DataError:
        if "limit" in answer:
            return DataError(
                f"the chat template needs more than {MEMORY_BYTES >> 20} MiB of memory or writes more than "
                f"{CHARACTERS >> 20} Mi characters for one conversation"
            )
        if "error" in answer:
            return DataError(f"the chat template refuses this conversation: {answer['error']}")
        return [(text, [(start, end) for start, end in spans]) for text, spans in answer["rendered"]]

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("render_worker.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={key: os.environ[key] for key in _ENVIRONMENT if key in os.environ},
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for us; the worker ends when its input does
            )
            assert self._process.stdin is not None
            setting = {
                "template": self.template,
                "seconds": SECONDS,
                "memory_bytes": MEMORY_BYTES,
                "characters": CHARACTERS,
            }
            self._process.stdin.write(json.dumps(setting) + "\n")
        return self._process

    def _death(self, code: int) -> str:
        self.close()
        if code == -signal.SIGPROF:
            return f"the chat template ran for more than {SECONDS:g} s on one conversation; it was stopped"
        if code == -signal.SIGKILL:
            return "the process that renders the chat template was killed, probably for lack of memory"
        return f"the process that renders the chat template ended with code {code}"
