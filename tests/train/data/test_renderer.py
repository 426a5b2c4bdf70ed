"""Templates run with limits, and render what Transformers renders."""

import time

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from hetero.errors import DataError
from hetero.train.data import render_worker
from hetero.train.data.renderer import Job, Renderer

MESSAGES = [
    {"role": "system", "content": " be <b>brief</b> "},
    {"role": "user", "content": "hé\n\u0000 'q' 三 🙂"},
    {
        "role": "assistant",
        "content": "a",
        "tool_calls": [{"function": {"name": "f", "arguments": {"x": "ü<"}}}],
    },
]

TEMPLATES = [
    "{% for m in messages %}\n  <|{{ m.role }}|>{{ m['content'] | trim }}\n{% endfor %}\n",
    "{%- for m in messages -%}{% if loop.first %}{% continue %}{% endif %}"
    "{{ m.content }}{{ eos }}{%- endfor -%}",
    "{{ messages[2].tool_calls[0] | tojson(indent=1) }}{{ tools | tojson }}{{ documents is none }}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"
    "{% if add_generation_prompt %}>{% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}x"
    "{% generation %}{{ m.content }}<e>{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{% generation %}{% endgeneration %}{% endfor %}",
    "{% macro f(m) %}[{{ m.content }}]{% endmacro %}{% for m in messages[::-1] %}{{ f(m) }}{% endfor %}",
    "{{ messages | map(attribute='role') | join(',') }}{{ messages[0].content.split()[0] }}"
    "{{ '%s' | format(3) }}",
]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("prompt", [False, True])
def test_same_as_transformers(template, prompt):
    variables = {"tools": [{"a": "ü"}], "documents": None, "eos": "</s>"}
    expected, spans = render_jinja_template(
        [MESSAGES],
        chat_template=template,
        return_assistant_tokens_mask="generation %" in template,
        add_generation_prompt=prompt,
        **variables,
    )
    with Renderer(template) as renderer:
        (((text, found),),) = renderer.render([Job(MESSAGES, variables, [(3, prompt)])])
    assert text == expected[0] and (not spans or found == spans[0])


def render(renderer, messages=MESSAGES, renders=((3, False),)):
    """The texts of one job; its error is raised."""
    (out,) = renderer.render([Job(messages, {}, renders)])
    if isinstance(out, DataError):
        raise out
    return [text for text, _ in out]


def test_many_renders_and_many_jobs():
    with Renderer("{{ messages | length }}{% if add_generation_prompt %}>{% endif %}") as renderer:
        for _ in range(2):
            assert render(renderer, renders=[(0, True), (2, False), (3, True)]) == ["0>", "2", "3>"]
        assert renderer.render([Job(MESSAGES[:n], {}, [(n, False)]) for n in range(4)]) == [
            [(str(n), [])] for n in range(4)
        ]


def test_the_date_does_not_move():
    with Renderer("{{ strftime_now('%d %B %Y') }}") as renderer:
        assert render(renderer) == [render_worker.DATE.strftime("%d %B %Y")]


@pytest.mark.parametrize(
    "template, part",
    [
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
        ("{{ cycler.__init__.__globals__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ raise_exception('roles must alternate') }}", "TemplateError: roles must alternate"),
        ("\n{% for %}", "TemplateSyntaxError: line 2"),
        ("{{ messages[9].content }}", "UndefinedError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
    ],
)
def test_what_a_template_may_not_do(template, part):
    with Renderer(template) as renderer:
        for _ in range(2):
            with pytest.raises(DataError, match=part):
                render(renderer)


HOSTILE = [
    "{{ 'a' * 10**9 }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "{{ 'x' * 20000000 }}",
]


@pytest.mark.parametrize("template", HOSTILE)
def test_resources_are_limited(template, monkeypatch):
    monkeypatch.setattr("hetero.train.data.renderer.SECONDS", 0.5)
    started = time.monotonic()
    with Renderer(template) as renderer, pytest.raises(DataError, match=r"ran for more than|needs more than"):
        render(renderer)
    assert time.monotonic() - started < 20  # processor time is limited to 0.5 s; the machine may be busy


@pytest.mark.parametrize("template", HOSTILE)
def test_the_job_that_breaks_a_limit_is_found(template, monkeypatch):
    monkeypatch.setattr("hetero.train.data.renderer.SECONDS", 1.5)  # compiling the template counts
    picky = "{% if messages[0].content == 'bad' %}" + template + "{% endif %}ok"
    jobs = [
        Job([{"role": "user", "content": content}], {}, [(1, False)]) for content in ("a", "b", "bad", "c")
    ]
    with Renderer(picky) as renderer:
        first, second, third, *rest = renderer.render(jobs)
        assert first == second == [("ok", [])] and isinstance(third, DataError)
        assert rest in ([], [first])
        assert render(renderer) == ["ok"]


def test_no_secrets_and_no_process_left(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    with Renderer("ok") as renderer:
        assert render(renderer) == ["ok"]
        process = renderer._process
        with open(f"/proc/{process.pid}/environ", "rb") as stream:
            assert b"secret" not in stream.read()
    assert process.poll() is not None


def test_marker_characters_in_data_are_refused():
    with Renderer("{{ messages[0].content }}") as renderer:
        with pytest.raises(DataError, match="noncharacters"):
            render(renderer, [{"role": "user", "content": "\ufdd0"}])
        assert render(renderer, [{"role": "user", "content": r"\ufdd0"}]) == [r"\ufdd0"]
