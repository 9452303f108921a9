"""Several stores on one connection, each under a name of its own."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.database.connections import lock
from tracekit.database.limits import set_limits
from tracekit.database.opening import _not_opened, _passing_name
from tracekit.sql_text import quote
from tracekit.storage.passing_folders import temporary_folder

if TYPE_CHECKING:
    import duckdb


def attach_stores(
    stores: Mapping[str, Path], resources: contextlib.ExitStack
) -> duckdb.DuckDBPyConnection:
    """Attach stores that have been opened before, and so are known to be whole, for reading.

    What is not in a store goes to a database in memory; SQL reaches no files and no network.

    Args:
        stores: their files by the names that they get; the same file may have several.
        resources: closed behind the connection.

    Raises:
        StoreError: a store cannot be opened.
    """
    import duckdb

    spill_folder = temporary_folder()
    resources.callback(shutil.rmtree, spill_folder, ignore_errors=True)
    connection = duckdb.connect()
    resources.callback(connection.close)
    set_limits(connection, spill_folder)
    with contextlib.ExitStack() as names:
        for name, path in stores.items():
            try:
                passing = names.enter_context(_passing_name(path))
                connection.execute(f'ATTACH {quote(str(passing))} AS "{name}" (READ_ONLY)')
            except (duckdb.Error, OSError) as error:
                raise _not_opened(path, str(error)) from error
        lock(connection)
    return connection
