"""The tables of run folders, for a dataset: what the manifests beside the traces say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tracekit.dataset.layout import WRITTEN_AS
from tracekit.sql_text import quote
from tracekit.storage import Place


def write_run_tables(runs: Sequence[Place], folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the tables that run folders fill, each with its file and how many rows it has.

    A file is only there until the next one is asked for.

    Args:
        runs: the run folders.
        folder: where the files may lie.

    Raises:
        OSError: a file cannot be written.
    """
    if not runs:
        return
    import duckdb

    from tracekit.database import create_run_tables, create_tables
    from tracekit.ingest.runs import load_runs
    from tracekit.schema import RUN_TABLES

    target = folder / "runs.parquet"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        create_tables(connection)
        create_run_tables(connection)
        load_runs(connection, runs, folder)
        if (connection.execute("SELECT EXISTS (FROM benchmark)").fetchone() or (False,))[0]:
            from tracekit.analysis.device_peaks import fill_named_peaks

            fill_named_peaks(connection)
        for table in (*(table.name for table in RUN_TABLES), "rejected"):
            counted = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            if counted and counted[0]:
                connection.execute(f"COPY {table} TO {quote(str(target))} ({WRITTEN_AS})")
                yield table, target, counted[0]
                target.unlink()
