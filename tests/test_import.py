"""`import tracekit` loads no library; its public names and all decoders exist from then on."""

import ast
import subprocess
import sys

import pytest
from every_trace import REPO

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


def _late_decoders(path):
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in ("msgspec.json.decode", "msgspec.convert"):
            types = [ast.unparse(one.value) for one in node.keywords if one.arg == "type"]
            plain = ("msgspec.Raw", "dict[str, msgspec.Raw]")
            found += [f"{path.name}:{node.lineno}: {one}" for one in types if one not in plain]
    return found


@pytest.mark.nightly("starts a process that imports everything")
def test_no_decoder_is_created_late():
    """Decoders of classes are created on import of their module, so never by two threads at once.

    msgspec 0.22 completes its description of a class while it creates the first decoder; a second
    thread that decodes at that time crashes the process. A comparison reads two traces on two
    threads.
    """
    paths = sorted((REPO / "tracekit").rglob("*.py"))
    assert len(paths) > 100
    assert [place for path in paths for place in _late_decoders(path)] == []
