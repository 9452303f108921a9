"""A trace of hostile text."""

import json

import pytest
from traces_by_hand import call, kernel, span

import tracekit

NAMES = [
    '"quoted" \\back',
    "<script>alert(1)</script>",
    "\u202eevil",
    "\x1b[31mred",
    "\U0001f600",
    "x" * 5_000,
    "",
    "%s%n",
    "'; DROP TABLE event; --",
    "\x07\x08",
    "lone \ud800",
    "nul \0 inside",
]


def hostile():
    """Return events, kernels, and counters with names that have a meaning in other formats."""
    numbers = {"big": 2**70, "least": -(2**63), "most": 2**64 - 1, "tiny": 5e-324}
    found = [span("cpu_op", "before all", -50, -40), span("cpu_op", "huge", 300, 310, **numbers)]
    for number, name in enumerate(NAMES):
        found.append(span("cpu_op", name, 10 * number, 10 * number + 5, **{name: name}))
        found.append(call(500 + number, 500.5 + number, number + 1))
        found.append(kernel(name[:99] or "k", 600 + 3 * number, 606 + 3 * number, number + 1))
    values = {'w"x': 3, "$.a": 4, "b\\": 5, "*": 6, "is text": "7.5", "none": float("nan")}
    counter = {"ph": "C", "name": "ours", "pid": 1, "tid": 1, "ts": 700, "args": values}
    return [*found, counter, {"ph": "i", "name": "\u2028", "s": "t", "pid": 1, "tid": 1, "ts": 701}]


@pytest.fixture(scope="module")
def of_hostile(tmp_path_factory):
    """Return a trace of hostile text, which tests only export."""
    file = tmp_path_factory.mktemp("hostile") / "trace.json"
    file.write_text(json.dumps({"traceEvents": hostile()}), "utf-8")
    with tracekit.open(file, cache=False) as trace:
        yield trace
