"""The process that renders chat templates: a template is somebody else's program.

Jinja's sandbox stops attribute tricks but not `'a' * 10**9` or loops without end, so templates run here, in a
process with limits on memory and processor time that its parent can lose without harm. It is started as a
script, imports only Jinja, and speaks JSON lines: first the setting, then one request a line.

The environment is that of Transformers' `apply_chat_template`, with one difference: `strftime_now` gives
a fixed date. Token ids that change with the day would make a run impossible to repeat or to resume.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
from datetime import datetime
from typing import Any

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

DATE = datetime(2024, 7, 26)  # the date that the Llama 3 templates fall back to


class Generation(jinja2.ext.Extension):
    """`{% generation %}` … `{% endgeneration %}`: wraps what the assistant wrote in two marker characters."""

    tags = {"generation"}  # noqa: RUF012 - so declared by Jinja

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    @staticmethod
    def _mark(caller: Any) -> str:
        return OPEN + caller() + CLOSE


# Noncharacters, which valid text does not contain; a row that does is refused.
OPEN, CLOSE = "\ufdd0", "\ufdd1"
_MARKS = re.compile(f"([{OPEN}{CLOSE}])")


def environment() -> ImmutableSandboxedEnvironment:
    """The sandbox that templates are compiled in."""

    def fail(message: str) -> None:
        raise jinja2.TemplateError(message)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: Any = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    sandbox.filters["tojson"] = tojson
    sandbox.globals |= {"raise_exception": fail, "strftime_now": DATE.strftime}
    return sandbox


def split_marks(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Text without marker characters, and the (start, end) of what they enclosed."""
    clean: list[str] = []
    spans: list[tuple[int, int]] = []
    length = 0
    start = -1
    for piece in _MARKS.split(text):
        if piece == OPEN:
            start = length
        elif piece == CLOSE:
            spans.append((start, length))
        else:
            clean.append(piece)
            length += len(piece)
    return "".join(clean), spans


def render(template: jinja2.Template, job: dict[str, Any], characters: int) -> dict[str, Any]:
    """One conversation's renders: {"rendered": [(text, spans) …]}, {"error": …} or {"limit": True}."""
    try:
        if _MARKS.search(json.dumps(job["messages"], ensure_ascii=False)):
            raise ValueError("the text holds the noncharacters U+FDD0 or U+FDD1")
        texts = [
            template.render(
                messages=job["messages"][:turns], add_generation_prompt=prompt, **job["variables"]
            )
            for turns, prompt in job["renders"]
        ]
        if max(map(len, texts)) > characters:
            return {"limit": True}
        return {"rendered": [split_marks(text) for text in texts]}
    except MemoryError:
        return {"limit": True}
    except Exception as error:  # noqa: BLE001 - whatever a template does wrong is told to the parent
        return {"error": f"{type(error).__name__}: {str(error)[:500]}"}


def main() -> None:
    """Serve requests, lists of jobs, until the input ends. A job that runs too long kills us by SIGPROF."""
    setting = json.loads(sys.stdin.readline())
    limit = setting["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # no files; pipes are not limited by it
    template: jinja2.Template | None = None
    for line in sys.stdin:
        answers: list[dict[str, Any]] = []
        try:
            for job in json.loads(line):
                signal.setitimer(signal.ITIMER_PROF, setting["seconds"])
                try:
                    template = template or environment().from_string(setting["template"])
                    answers.append(render(template, job, setting["characters"]))
                except jinja2.TemplateSyntaxError as error:
                    answers.append({"error": f"{type(error).__name__}: line {error.lineno}: {error.message}"})
            reply = json.dumps(answers)
        except MemoryError:  # together they are too large; the parent asks again, one by one
            reply = json.dumps([{"limit": True}])
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(reply + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
