"""DuckDB's compiled module is used without the package around it, which anyone may still import."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path


def python(code: str, *args: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_breakdown_does_without_the_package(sample_trace: Path) -> None:
    code = """
        import sys, tracekit
        with tracekit.open(sys.argv[1], cache=False) as trace:
            print(len(trace.breakdown()["timeline"].rows) > 0, "duckdb" in sys.modules)
    """
    assert python(code, sample_trace) == "True False"


def test_the_events_are_the_same_with_the_package(sample_trace: Path) -> None:
    code = """
        import sys
        if sys.argv[2] == "package":
            import duckdb
        import tracekit
        with tracekit.open(sys.argv[1], cache=False) as trace:
            print(trace.sql("SELECT count(*), sum(hash(event)) FROM event").rows)
            print(trace.sql("SELECT count(*), sum(hash(flow)) FROM flow").rows)
    """
    assert python(code, sample_trace, "engine") == python(code, sample_trace, "package")


def test_a_connection_that_is_handed_out_has_all_methods(sample_trace: Path) -> None:
    code = """
        import sys, tracekit
        with tracekit.open(sys.argv[1], cache=False) as trace:
            print(trace.connection.sql("SELECT 1 AS a").filter("a = 1").fetchall())
    """
    assert python(code, sample_trace) == "[(1,)]"


def test_an_unknown_version_is_loaded_whole(sample_trace: Path) -> None:
    code = """
        import sys, tracekit
        from tracekit.database import engine
        engine._KNOWN_VERSIONS = frozenset()
        with tracekit.open(sys.argv[1], cache=False) as trace:
            print(trace.query("timeline").rows != [], "duckdb" in sys.modules)
    """
    assert python(code, sample_trace) == "True True"
