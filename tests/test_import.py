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


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (errors.UsageError, 2),
        (errors.TraceError, 3),
        (errors.StoreError, 4),
        (errors.QueryError, 5),
        (errors.WorkloadError, 6),
    ],
)
def test_every_error_has_its_exit_code(error, exit_code):
    raised = error("run.json: no such file", hint="look for it")
    assert raised.exit_code == exit_code
    assert raised.message == "run.json: no such file"
    assert str(raised) == "run.json: no such file (look for it)"
    assert raised.hint == "look for it"
    assert error("x").hint is None
    assert str(error("x")) == "x"
