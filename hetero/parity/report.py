"""A comparison for people: text, a picture of the drift, one self-contained HTML page."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

from hetero.parity.compare import Comparison, Difference

#: Rows of what parted that are shown.
SHOWN = 20
#: What an infinite distance is drawn at.
_TOP = 10.0


def text(comparison: Comparison) -> str:
    """The verdict, the first place where the devices part, and the losses."""
    a, b = comparison.a, comparison.b
    lines = [f"{b.device} against {a.device}: {_verdict(comparison)}"]
    if comparison.first is not None:
        lines += [f"  first apart: {_described(comparison.first)}", f"    {comparison.first.why()}"]
        more = comparison.parted[1:6]
        lines += [f"  then: {_described(d)}" for d in more]
        rest = len(comparison.parted) - 1 - len(more)
        lines += [f"  and {rest} more"] * (rest > 0)
    for step, losses in enumerate(zip(a.losses, b.losses), 1):
        norms = a.grad_norms[step - 1], b.grad_norms[step - 1]
        lines.append(
            f"  step {step}: loss {losses[0]:.8g} and {losses[1]:.8g}, grad_norm {norms[0]:.6g} and {norms[1]:.6g}"
        )
    if comparison.unmatched:
        ops = sorted({call[3] for call in comparison.unmatched})
        lines.append(
            f"  not compared, for the devices do not call them alike: {len(comparison.unmatched)} calls of "
            f"{', '.join(ops[:8])}{' …' * (len(ops) > 8)}; the outputs of their modules are"
        )
    return "\n".join(lines)


def _verdict(comparison: Comparison) -> str:
    total, parted = len(comparison.differences), len(comparison.parted)
    if not total:
        return "nothing can be compared"
    return (
        f"{parted} of {total} results are further apart than rounding explains"
        if parted
        else (f"the same within rounding ({total} results)")
    )


def _described(difference: Difference) -> str:
    return f"{difference.a.place()}: {difference.drift:.2g} apart, {difference.allowed:.2g} allowed"


def figure(comparisons: Sequence[Comparison]) -> str:
    """The drift of every result in the order of computation, beside what is allowed, as SVG; a panel a device."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(11, 3.6 * len(comparisons)), layout="constrained")
    FigureCanvasSVG(drawn)
    for axes, comparison in zip(drawn.subplots(len(comparisons), squeeze=False)[:, 0], comparisons):
        _panel(axes, comparison)
    out = io.StringIO()
    drawn.savefig(out, format="svg")
    return out.getvalue()[out.getvalue().index("<svg") :]


def _panel(axes: Any, comparison: Comparison) -> None:
    shown = [d for d in comparison.differences if not d.a.exact]
    floor = 1e-9
    for phase, color in (("forward", "C0"), ("backward", "C2"), ("gradients", "C4"), ("weights", "C5")):
        at = [i for i, d in enumerate(shown) if d.a.phase == phase]
        drift = [min(max(shown[i].drift, floor), _TOP) for i in at]
        axes.plot(at, drift, ".", ms=3, color=color, label=phase)
    axes.plot([min(max(d.allowed, floor), _TOP) for d in shown], color="0.6", lw=0.8, label="allowed")
    first = next((i for i, d in enumerate(shown) if d.parted), None)
    if first is not None:
        height = min(shown[first].drift, _TOP)
        axes.plot([first], [height], "o", ms=9, mfc="none", mec="C3", mew=2, label="first apart")
        axes.annotate(
            shown[first].a.place(), (first, height), (8, 4), textcoords="offset points", color="C3", size=8
        )
    for i in range(1, len(shown)):
        if shown[i].a.step != shown[i - 1].a.step:
            axes.axvline(i, color="0.85", lw=0.8, zorder=0)
    axes.set_yscale("log")
    axes.set_ylim(floor / 2, 2 * _TOP)
    axes.set_title(f"{comparison.b.device} against {comparison.a.device}", loc="left", size=10)
    axes.set_xlabel("result, in the order of computation")
    axes.set_ylabel("relative distance")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, markerscale=2, fontsize=8)


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>hetero parity</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: .5rem 0 1.5rem } td, th { padding: .15rem .8rem .15rem 0; text-align: left;
border-bottom: 1px solid #ddd; vertical-align: top } .parted { color: #b00020 } .same { color: #0a7a30 }
td.number { font-variant-numeric: tabular-nums } svg { max-width: 100%; height: auto } code { font-size: 90% }
</style>
<h1>Parity</h1>
<p>One recipe, trained from one state on each device. A point is one result: its distance from the reference, relative
to its norm. Allowed is {{ factor }} times what the result moves by when every weight moves by one rounding.</p>
{{ figure }}
{% for c in comparisons %}
<h2 class="{{ 'parted' if c.parted else 'same' }}">{{ c.b.device }} against {{ c.a.device }}: {{ verdict(c) }}</h2>
{% if c.parted %}
<table><tr><th>where</th><th>apart</th><th>allowed</th><th>what ({{ c.a.device }} and {{ c.b.device }})</th></tr>
{% for d in c.parted[:shown] %}<tr><td>{{ d.a.place() }}</td><td class="number">{{ '%.2g' % d.drift }}</td>
<td class="number">{{ '%.2g' % d.allowed }}</td><td>{{ d.why() }}</td></tr>
{% endfor %}</table>
{% if c.parted | length > shown %}<p>and {{ c.parted | length - shown }} more, later.</p>{% endif %}
{% endif %}
<table><tr><th>step</th><th>loss</th><th></th><th>grad_norm</th><th></th></tr>
{% for row in rows(c) %}<tr>{% for cell in row %}<td class="number">{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% if c.unmatched %}<details><summary>{{ c.unmatched | length }} calls are not compared: the devices do not make them
alike (the outputs of their modules are)</summary><ul>
{% for call, counts in c.unmatched.items() %}<li>{{ call[1] }}: {{ call[3] }} in {{ call[2] }}, step {{ call[0] }}:
{{ counts[0] }} and {{ counts[1] }} results</li>{% endfor %}</ul></details>{% endif %}
<p>{{ c.a.device }}: {{ c.a.versions }}; {{ c.b.device }}: {{ c.b.versions }}</p>
{% endfor %}
<h2>Recipe</h2>
<table>{% for key, value in recipe.items() %}<tr><td>{{ key }}</td><td><code>{{ value }}</code></td></tr>
{% endfor %}</table>
</html>
"""


def html(comparisons: Sequence[Comparison]) -> str:
    """One page without outside references."""
    import jinja2
    from markupsafe import Markup

    from hetero.parity.compare import FACTOR

    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(_PAGE)
    return page.render(
        comparisons=comparisons,
        figure=Markup(figure(comparisons)),
        factor=f"{FACTOR:g}",
        recipe={k: v for k, v in comparisons[0].a.recipe.items() if v is not None},
        rows=_rows,
        shown=SHOWN,
        verdict=_verdict,
    )


def _rows(comparison: Comparison) -> list[list[str]]:
    a, b = comparison.a, comparison.b
    columns = zip(a.losses, b.losses, a.grad_norms, b.grad_norms)
    return [
        [str(step), *(f"{n:.8g}" if math.isfinite(n) else str(n) for n in numbers)]
        for step, numbers in enumerate(columns, 1)
    ]
