"""Opens a dataset: creates its tables as views over Parquet files, and uses its analysis rows.

Datasets are untrusted. They contain no SQL: tracekit creates the views, with the columns and types
of its tables, over files whose names it has checked. The user's SQL can read only the files of the
dataset.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import io
import shutil
import stat
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tracekit.dataset.consolidation import MARKER_NUMBER
from tracekit.dataset.layout import File
from tracekit.dataset.manifest import Manifest, read_manifest
from tracekit.errors import StoreError
from tracekit.schema import RUN_TABLES
from tracekit.sql_text import quote, rows

if TYPE_CHECKING:
    import duckdb

    from tracekit.storage import Location

_RUN_TABLES = frozenset(table.name for table in RUN_TABLES)


PROTOCOL = "tracekit-dataset"

BLOCK_BYTES = 256 << 10
"""Size of a fetched block in bytes; most small files fit in one."""

MAX_BLOCKS = 256


class OpenDataset(Struct, frozen=True):
    connection: duckdb.DuckDBPyConnection
    manifest: Manifest


def open_dataset(
    dataset: Location, resources: contextlib.ExitStack, *, unsafe: bool = False
) -> OpenDataset:
    manifest = read_manifest(dataset)
    if manifest is None:
        raise StoreError(
            f"{dataset.shown}: not a dataset: it has no manifest.json",
            hint="create the dataset, or resume its ingest: tracekit ingest RANKS -o NAME.tracekit",
        )
    return open_listed(dataset, manifest, resources, unsafe=unsafe)


def open_listed(
    dataset: Location,
    manifest: Manifest,
    resources: contextlib.ExitStack,
    *,
    unsafe: bool = False,
) -> OpenDataset:
    """Open the files that a manifest lists, even if the manifest has not been written yet."""
    import duckdb

    from tracekit.analysis.library import start_session
    from tracekit.database.connections import connect, lock
    from tracekit.storage.temp_dirs import temporary_folder

    folder = temporary_folder()
    resources.callback(shutil.rmtree, folder, ignore_errors=True)
    connection = connect(folder)
    try:
        files = _Files(dataset, connection, manifest, folder)
        start_session(connection)
        _create_tables(connection, manifest, files, folder)
        _list_analyses(connection, manifest, files)
        if not unsafe:
            lock(connection, files.begin)
    except (duckdb.Error, UnicodeDecodeError) as error:
        connection.close()
        raise _damaged(dataset, str(error)) from error
    except BaseException:
        connection.close()
        raise
    return OpenDataset(connection, manifest)


class _Files:
    """Files of a dataset, with their names in SQL. `passing` is a temporary folder for links."""

    def __init__(
        self,
        dataset: Location,
        connection: duckdb.DuckDBPyConnection,
        manifest: Manifest,
        passing: Path,
    ) -> None:
        self.dataset = dataset
        path = dataset.local_path
        if path is None:
            sizes_bytes = {file.name: file.size_bytes for file in manifest.files}
            self.begin = _register(connection, dataset, sizes_bytes)
            return
        folder = path.resolve()
        for file in manifest.files:
            # Opening a FIFO would block, and link targets are not part of the dataset.
            with contextlib.suppress(OSError):
                if not stat.S_ISREG((folder / file.name).lstat().st_mode):
                    raise _damaged(dataset, f"{file.name} is not a regular file")
        if any(sign in str(folder) for sign in "*?["):
            # DuckDB would expand such a name as a pattern, so use a link with another name.
            link = passing / "dataset"
            link.symlink_to(folder, target_is_directory=True)
            folder = link
        self.begin = f"{folder}/"

    def sql(self, listed: list[File]) -> str:
        names = ", ".join(quote(self.begin + file.name) for file in listed)
        return f"read_parquet([{names}])"


def _create_tables(
    connection: duckdb.DuckDBPyConnection, manifest: Manifest, files: _Files, folder: Path
) -> None:
    """Create the tables, views, and macros of a store over the files."""
    from tracekit.analysis.catalog import load_catalog
    from tracekit.analysis.library import library_file
    from tracekit.analysis.names.rules import create_rule_tables
    from tracekit.database.connections import create_tables

    create_tables(connection, library_file())
    if manifest.rules is not None:
        rules = folder / "rules.toml"
        rules.write_text(manifest.rules, encoding="utf-8")
        create_rule_tables(connection, rules)
    result = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
    ).fetchall()
    for (name,) in result:
        if name in manifest.tables:
            described = connection.execute(f"DESCRIBE {name}").fetchall()
            connection.execute(f"DROP TABLE {name}")
            _create_view(connection, manifest, files, name, [(row[0], row[1]) for row in described])
    info = (manifest.schema_version, manifest.tracekit_version, manifest.made_by)
    connection.execute(f"INSERT INTO store_info VALUES {rows([info])}")
    for view in load_catalog().views.values():
        if view.name in manifest.tables:
            columns = [(column.name, column.type) for column in view.columns]
            connection.execute(f"DROP VIEW {view.name}")
            _create_view(connection, manifest, files, view.name, columns)


def _list_analyses(
    connection: duckdb.DuckDBPyConnection, manifest: Manifest, files: _Files
) -> None:
    """Provide the session with the statements that read the stored analysis rows."""
    from tracekit.analysis.catalog import load_catalog
    from tracekit.database.connections import session_of

    session = session_of(connection)
    session.is_complete = True
    analyses = load_catalog().analyses
    for name, listed in manifest.analyses.items():
        if name in analyses:
            columns = analyses[name].columns
            picked = ", ".join(f'"{one.name}"::{one.type} AS "{one.name}"' for one in columns)
            read = f"SELECT {picked} FROM {files.sql([listed])}"
            session.provided[name] = f"{read} WHERE {_is_as_written(files, listed)}"


def _is_as_written(files: _Files, listed: File) -> str:
    """Return an SQL condition that fails if a local file has changed since it was written.

    Parquet detects only some corruption. Object stores have their own checksums.
    """
    if files.dataset.local_path is None:
        return "TRUE"
    changed = quote(f"Corrupt file: {listed.name} differs from the manifest")
    return (
        f"(SELECT if(sha256(content) = {quote(listed.sha256)}, TRUE, error({changed})) "
        f"FROM read_blob({quote(files.begin + listed.name)}))"
    )


def _create_view(
    connection: duckdb.DuckDBPyConnection,
    manifest: Manifest,
    files: _Files,
    name: str,
    columns: Sequence[tuple[str, str]],
) -> None:
    source = files.sql(manifest.tables[name])
    if name == "launch_context":
        numbers = files.sql(manifest.tables[MARKER_NUMBER])
        source = _with_markers(source, numbers)
    # Do not cast enumerations, which are stored as text: DuckDB pushes down filters only on text.
    picked = ", ".join(
        f'"{column}"' + ("" if kind.startswith("ENUM") else f"::{kind}") + f' AS "{column}"'
        for column, kind in columns
    )
    # The rows of run tables must keep their order, which a view does not preserve.
    what = "TABLE" if name in _RUN_TABLES else "VIEW"
    connection.execute(f"CREATE {what} {name} AS SELECT {picked} FROM {source}")


def _with_markers(source: str, numbers: str) -> str:
    """Return SQL for table launch_context with the marker numbers of the dataset."""
    return f"""(
        SELECT s.* REPLACE (p.marker_id AS phase_marker_id, r.marker_id AS row_marker_id)
        FROM {source} AS s
        LEFT JOIN {numbers} AS p
            ON s.trace_id = p.trace_id AND s.phase_marker_id = p.shard_marker_id
        LEFT JOIN {numbers} AS r
            ON s.trace_id = r.trace_id AND s.row_marker_id = r.shard_marker_id)"""


def _damaged(dataset: Location, text: str) -> StoreError:
    from tracekit.database.connections import DamagedStoreError

    reason = text.splitlines()[0] if text else "unknown reason"
    return DamagedStoreError(
        f"{dataset.shown}: the dataset is damaged: {reason}",
        hint="create it again: tracekit ingest RANKS -o NAME.tracekit --force",
    )


def _register(
    connection: duckdb.DuckDBPyConnection, dataset: Location, sizes_bytes: Mapping[str, int]
) -> str:
    """Let DuckDB read a remote dataset through fsspec; return the prefix of the file names in SQL.

    It reads only the listed files, whose sizes are known. Small reads, as of footers and small
    columns, are fetched in blocks and cached temporarily.
    """
    from tracekit.storage.stores import missing_extra

    try:
        from fsspec.spec import AbstractFileSystem
    except ImportError:
        raise missing_extra(dataset.shown) from None

    @functools.lru_cache(MAX_BLOCKS)
    def block(name: str, start: int) -> bytes:
        end = min(start + BLOCK_BYTES, sizes_bytes[name])
        return dataset.join(name).read_exactly(start, end)

    def read(name: str, start: int, end: int) -> bytes:
        if end - start >= BLOCK_BYTES:
            return dataset.join(name).read_exactly(start, end)
        first = start - start % BLOCK_BYTES
        blocks = b"".join(block(name, at) for at in range(first, end, BLOCK_BYTES))
        return blocks[start - first : end - first]

    class File(io.RawIOBase):
        """One file with a position per thread, because several DuckDB threads read it."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self._name = name
            self._size_bytes = sizes_bytes[name]
            self._position = threading.local()

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def tell(self) -> int:
            return int(getattr(self._position, "at", 0))

        def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
            base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size_bytes}
            self._position.at = base[whence] + offset
            return self.tell()

        def read(self, size: int = -1) -> bytes:
            start = self.tell()
            end = self._size_bytes if size < 0 else min(self._size_bytes, start + size)
            data = read(self._name, start, end) if start < end else b""
            self._position.at = start + len(data)
            return data

    class DatasetFiles(AbstractFileSystem):  # type: ignore[misc]
        protocol = PROTOCOL
        cachable = False

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            name = self._strip_protocol(path)
            if name not in sizes_bytes:
                raise FileNotFoundError(path)
            return {"name": name, "size": sizes_bytes[name], "type": "file"}

        def glob(self, path: str, **_: Any) -> list[str]:
            name = self._strip_protocol(path)
            return [name] if name in sizes_bytes else []

        def modified(self, path: str) -> datetime.datetime:
            # Files of a dataset never change, because their names depend on the content.
            del path
            return datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)

        def _open(self, path: str, mode: str = "rb", **_: Any) -> File:
            if mode != "rb":
                raise PermissionError("a dataset is read-only")
            return File(self.info(path)["name"])

    connection.register_filesystem(DatasetFiles())
    return f"{PROTOCOL}://"
