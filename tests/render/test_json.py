"""JSON: exact, valid, safe on a terminal."""

import io
import json
import math
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.analysis.result import Column, Result
from tracekit.render import renderer
from tracekit.render.json import json_text

INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (INT64_MAX, "9223372036854775807"),
        (-(2**127), "-170141183460469231731687303715884105728"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (math.nan, "null"),
        (math.inf, "null"),
        (-math.inf, "null"),
        (Decimal("12345678901234567890.50"), "12345678901234567890.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("NaN"), "null"),
        (datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC), '"2020-01-02T03:04:05.000006+00:00"'),
        (date(2020, 1, 2), '"2020-01-02"'),
        (time(1, 2, 3), '"01:02:03"'),
        (timedelta(days=1), '"1 day, 0:00:00"'),
        (b"\x00\xff", '"00ff"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
        ([1, [None, math.nan]], "[1, [null, null]]"),
        ({"a": {"b": INT64_MAX}, 3: "x"}, '{"a": {"b": 9223372036854775807}, "3": "x"}'),
        ("grün 🚀", '"grün 🚀"'),
        ("\x1b[31m\x7f\x9b", '"\\u001b[31m\\u007f\\u009b"'),
        ("a\u202eb\u2028", '"a\\u202eb\\u2028"'),
        ("\U000e0041", '"\\udb40\\udc41"'),
    ],
)
def test_a_value_is_exact_json(value, text):
    assert json_text(value) == text
    json.loads(text)


@given(st.text())
def test_every_text_survives(text):
    assert json.loads(json_text(text)) == text
    assert json.loads(json_text(text, ascii_only=True)) == text
    assert json_text(text, ascii_only=True).isascii()


def test_a_query_is_a_list_of_rows(make_result, rendered):
    result = make_result(
        "timeline",
        {"rank": "INTEGER", "idle_ns": "BIGINT", "share_pct": "DOUBLE", "args": "JSON"},
        (0, INT64_MAX, math.nan, '{"a": [1]}'),
        (None, 0, 12.5, None),
    )
    text = rendered(result, "json")
    assert text == (
        "[\n"
        ' {"rank": 0, "idle_ns": 9223372036854775807, "share_pct": null, '
        '"args": "{\\"a\\": [1]}"},\n'
        ' {"rank": null, "idle_ns": 0, "share_pct": 12.5, "args": null}\n'
        "]\n"
    )
    assert json.loads(text)[0]["idle_ns"] == INT64_MAX


def test_a_breakdown_is_one_object(breakdown, rendered):
    data = json.loads(rendered(breakdown, "json"))
    assert list(data) == list(breakdown)
    for name, result in breakdown.items():
        assert data[name] == json.loads(rendered(result, "json"))
        assert data[name] == result.to_dicts()
    assert rendered({}, "json") == "{}\n"


def test_a_stream_without_unicode_gets_escapes():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    result = Result("x", (Column("größe", "VARCHAR"),), [("🚀",)])
    renderer("json")(result, stream)
    stream.flush()
    assert json.loads(raw.getvalue()) == [{"größe": "🚀"}]
