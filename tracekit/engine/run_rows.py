"""The rows of analyses of scope ``run``, for a dataset: what a breakdown would else ask again.

They reduce what the units left, once all is there; a breakdown of the finished dataset reads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.breakdown import reductions_kept
from tracekit.dataset.layout import WRITTEN_AS
from tracekit.errors import StoreError
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.dataset.manifest import Manifest
    from tracekit.storage import Location


def write_run_rows(
    dataset: Location, manifest: Manifest, folder: Path
) -> Iterator[tuple[str, Path, int]]:
    """Yield the analyses of scope ``run`` that a dataset keeps, each with its file and its rows.

    A file is only there until the next one is asked for. Where memory does not suffice there are
    none: who asks for one later has it run then.

    Args:
        dataset: its files are there, all but these.
        manifest: what is in it; it need not be written.
        folder: where the files may lie.

    Raises:
        OSError: a file cannot be written.
        StoreError: a file of the dataset is damaged.
    """
    import duckdb

    from tracekit.database import DamagedStoreError

    names = reductions_kept(manifest.analyses, len(manifest.traces))
    if not names:
        return
    target = folder / "run_rows.parquet"
    try:
        found = _rows_of(dataset, manifest, names)
    except DamagedStoreError:
        raise
    except (duckdb.OutOfMemoryException, StoreError):
        return
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for result in found:
            types = {column.name: column.type for column in result.columns}
            empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in types.items())
            sql = select_rows(types, result.rows) if result.rows else f"SELECT {empty} LIMIT 0"
            connection.execute(f"COPY ({sql}) TO {quote(str(target))} ({WRITTEN_AS})")
            yield result.name, target, len(result.rows)
            with contextlib.suppress(OSError):
                target.unlink()


def _rows_of(dataset: Location, manifest: Manifest, names: list[str]) -> list[Result]:
    from tracekit.analysis.catalog import load_catalog
    from tracekit.analysis.macros import rows_kept
    from tracekit.analysis.run import run_analysis, run_reductions
    from tracekit.dataset.opening import open_listed

    specs = [load_catalog().analysis(name) for name in names]
    with contextlib.ExitStack() as resources:
        opened = open_listed(dataset, manifest, resources, unsafe=True)
        connection = resources.enter_context(opened.connection)
        # Sums of fractions depend on how many threads there are.
        connection.execute("SET threads = 1")
        known: dict[str, Result] = {}
        with rows_kept(connection, specs):
            for spec in specs:
                if not spec.reduces:
                    known[spec.name] = run_analysis(connection, spec, {})
        reductions = [spec for spec in specs if spec.reduces]
        for one in {one.analysis for spec in reductions for one in spec.reduces}:
            if one not in known and one in opened.answers:
                known[one] = opened.answers[one]
        known |= {result.name: result for result in run_reductions(connection, reductions, known)}
    return [known[name] for name in names]
