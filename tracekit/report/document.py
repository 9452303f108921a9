"""An HTML page: content security policy, style, script, and the data that the script draws."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files

from msgspec import Struct

import tracekit
from tracekit import palette
from tracekit.analysis.catalog import load_catalog
from tracekit.plot import Chart
from tracekit.render.json import json_text
from tracekit.report.budget import Cut

GENERATOR = "tracekit report"

_NO_SCRIPT = (
    "<noscript><p>Charts and tables need JavaScript. The commands above print the same figures."
    "</p></noscript>"
)

_SCRIPTS = (
    *("units.js", "labels.js", "tables.js", "pivot.js", "scales.js"),
    *("charts.js", "timeline.js", "main.js"),
)
_STYLE = "report.css"


class Content(Struct, frozen=True):
    """Data that the script of a page draws: charts and rows by name, and packed events.

    `view_command` is a command that opens the trace in Perfetto, or None.
    """

    charts: Mapping[str, Chart]
    data: Mapping[str, Cut]
    events: str | None = None
    view_command: str | None = None


def document(title: str, body: Iterable[str], content: Content) -> str:
    """Return a page as HTML. The lines of `body` must be HTML."""
    style, script = _style(), _script()
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta name="generator" content="{GENERATOR} {tracekit.__version__}">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(title)}</title><style>{style}</style></head><body>",
        *body,
        _NO_SCRIPT,
        '<script type="application/json" id="page-data">',
        _page_json(content),
        "</script>",
    ]
    if content.events is not None:
        parts.append(f'<script type="text/plain" id="events-data">{content.events}</script>')
    parts += [f"<script>{script}</script>", "</body></html>\n"]
    return "\n".join(parts)


def _page_json(content: Content) -> str:
    """Return charts and rows as JSON that is safe inside a script element."""
    text = io.StringIO()
    specs = {
        name: {"title": chart.title, "spec": dict(chart.spec)}
        for name, chart in content.charts.items()
    }
    view = json.dumps(content.view_command, separators=(",", ":"))
    text.write(
        '{"view":' + view + ',"charts":' + json.dumps(specs, separators=(",", ":")) + ',\n"data":{'
    )
    for place, (name, one) in enumerate(content.data.items()):
        text.write(",\n" if place else "\n")
        columns = json.dumps(one.shown.column_names)
        meanings = json.dumps(_meanings(name, one.shown.column_names))
        text.write(
            f'{json.dumps(name)}:{{"columns":{columns},"meanings":{meanings},'
            f'"total":{one.total},"rows":['
        )
        for number, row in enumerate(one.shown.rows):
            text.write(",\n" if number else "\n")
            text.write("[" + ",".join(map(json_text, row)) + "]")
        text.write("]}")
    text.write("}}")
    return in_script(text.getvalue())


def _meanings(name: str, columns: Iterable[str]) -> list[str]:
    """Return the column descriptions in an analysis header, or [] if `name` is not an analysis."""
    spec = load_catalog().analyses.get(name)
    if spec is None:
        return []
    known = {column.name: column.meaning for column in spec.columns}
    return [known.get(column, "") for column in columns]


def in_script(json: str) -> str:
    r"""Return JSON for a `script` element, with escapes for characters that could end it.

    The characters < > & and the line separators U+2028 and U+2029 occur only in JSON strings, where
    \uXXXX means the same.
    """
    for character in "<>&\u2028\u2029":
        json = json.replace(character, f"\\u{ord(character):04x}")
    return json


@cache
def _asset(name: str) -> str:
    return (files("tracekit.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    return "'use strict';\n{\n" + "\n".join(map(_asset, _SCRIPTS)) + "}\n"


@cache
def _style() -> str:
    dark, light = (
        "".join(
            f"--c-{colour.light[1:]}:{shown};--on-{colour.light[1:]}:{palette.text_on(shown)};"
            for colour, shown in zip(palette.ALL, of_page, strict=True)
        )
        for of_page in (
            [colour.dark for colour in palette.ALL],
            [colour.light for colour in palette.ALL],
        )
    )
    return (
        f":root{{{light}}}\n@media (prefers-color-scheme: dark)"
        f"{{:root:not([data-theme=light]){{{dark}}}}}\n:root[data-theme=dark]{{{dark}}}\n"
        + _asset(_STYLE)
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
