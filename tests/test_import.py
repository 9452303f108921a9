"""`import tracekit` loads no library, and its public names are available."""

import subprocess
import sys

import pytest

import tracekit
from tracekit import errors

HEAVY = ("duckdb", "_duckdb", "polars", "rich", "click", "torch")


def test_imports_are_lazy():
    """Local paths do not import modules for URLs."""
    code = (
        f"import sys, tracekit; print([m for m in {HEAVY!r} if m in sys.modules]);"
        "from tracekit.storage import place_of; place_of('trace.json');"
        "from tracekit.ingest import reading, event_collector;"
        "print(sorted({'asyncio', 'tracekit.storage.remote'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


def test_public_names_exist():
    assert dir(tracekit) == sorted(tracekit.__all__)
    for name in tracekit.__all__:
        assert getattr(tracekit, name) is not None
    assert tracekit.QueryError is errors.QueryError


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tracekit.no_such_name


def test_the_text_of_an_error_has_its_hint():
    raised = errors.TraceError("run.json: no such file", hint="look for it")
    assert (raised.message, raised.hint) == ("run.json: no such file", "look for it")
    assert str(raised) == "run.json: no such file (look for it)"
    assert (str(errors.TraceError("x")), errors.TraceError("x").hint) == ("x", None)
