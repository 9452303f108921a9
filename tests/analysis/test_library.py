"""The library: what SQL names, and where the prepared file is."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tracekit.analysis import library
from tracekit.database.connections import EMPTY_STORE, create_tables
from tracekit.sql_text import quote


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("FROM kernels", {"kernels"}),
        ('SELECT * FROM launch_link JOIN "phases" USING (step)', {"launch_link", "phases"}),
        ("SUMMARIZE kernels", {"kernels"}),
        ("FROM session.main.kernels", {"kernels"}),
        ("SELECT * FROM kernels AS k, steps", {"kernels", "steps"}),
        ("FROM kernels(p_limit := 1)", {"kernels()"}),
        ("SELECT is_op(category) FROM event", {"event_category", "event"}),
        ("SELECT is_gemm(class) FROM device_events", {"class_macros", "device_events"}),
        ("FROM stepped_devices('steps')", {"stepped_devices", "steps"}),
        ("WITH kernels AS (SELECT 1) FROM kernels", set()),
        ("SELECT 'FROM kernels' -- FROM steps", set()),
        ("SELECT kernels, steps FROM mine", {"mine"}),
    ],
)
def test_names_in_a_statement(text, names):
    assert {*library.names_in(text)} == names


def test_a_new_store_has_all_rows_of_the_empty_store():
    empty = library.library_file().with_name(EMPTY_STORE)
    with duckdb.connect() as connection:
        create_tables(connection, library.library_file())
        connection.execute(f"ATTACH {quote(str(empty))} AS empty (READ_ONLY)")
        tables = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'empty' ORDER BY 1"
        names = [name for (name,) in connection.sql(tables).fetchall()]
        differing = [
            name
            for name in names
            if connection.sql(f"(FROM empty.{name} EXCEPT ALL FROM {name}) LIMIT 1").fetchall()
        ]
    assert "kernel_rule" in names
    assert differing == []


PROGRAM = """
import os, sys
from tracekit.analysis import library
os.access = lambda *_: False
print(library.library_file())
"""


def test_no_library_is_in_a_folder_that_others_can_write(cache, monkeypatch):
    monkeypatch.setattr(library.os, "access", lambda *_: False)
    assert list(library._places()) == [cache]
    cache.chmod(0o777)
    assert list(library._places()) == []


@pytest.mark.parametrize(
    "mode", [0o700, pytest.param(0o777, marks=pytest.mark.nightly("builds another library"))]
)
def test_a_package_that_cannot_be_written(tmp_path, mode):
    """The library is in the user's cache, or in a temporary folder if others can write there.

    A damaged one is built again.
    """
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(mode)
    for _ in range(2 if mode == 0o700 else 1):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"TRACEKIT_CACHE_DIR": str(cache), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        file = Path(done.stdout.strip())
        assert (cache in file.parents) == (mode == 0o700)
        assert file.exists() == (mode == 0o700)
        headers = file.with_name("headers.msgpack")
        if file.exists():
            assert headers.stat().st_size > 1000
            headers.write_bytes(b"x")
