"""Writer of datasets: runs units of work on an engine and combines their results."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from tracekit import __version__
from tracekit.analysis.breakdown import run_analyses_of
from tracekit.analysis.catalog import load_catalog, make_digest
from tracekit.database.connections import SESSION, DamagedStoreError
from tracekit.dataset.consolidation import SmallFiles, write_run_tables
from tracekit.dataset.layout import FORMAT_VERSION, MANIFEST_NAME, WRITTEN_AS, File, put_file
from tracekit.dataset.manifest import Manifest, Missing, read_manifest
from tracekit.dataset.shards import FOLDER as SHARDS
from tracekit.dataset.shards import read_shards
from tracekit.engine.engines import Engine
from tracekit.engine.work import BatchResult, Failure, JobSpec, TraceFile, make_batches
from tracekit.errors import StoreError, TraceError
from tracekit.schema import SCHEMA_VERSION
from tracekit.sql_text import quote
from tracekit.storage import Location
from tracekit.storage.temp_dirs import temporary_folder


class RunProgress(Struct):
    """Progress of reading many traces.

    `done_count` and `done_bytes` include traces that an earlier attempt read; `read_bytes` excludes
    them. Bytes are approximate sizes of JSON text.
    """

    trace_count: int
    text_bytes: int
    done_count: int = 0
    done_bytes: int = 0
    read_bytes: int = 0
    failures: list[Failure] = field(default_factory=list)
    slowest: BatchResult | None = None

    def take(self, result: BatchResult) -> None:
        self.failures += result.failures
        self.done_count += sum(len(shard.traces) for shard in result.shards)
        self.done_bytes += result.batch.text_bytes
        self.read_bytes += result.batch.text_bytes
        if self.slowest is None or result.seconds > self.slowest.seconds:
            self.slowest = result


def recipe_of(rules: Path | None, analyses: Sequence[str]) -> str:
    """Return a digest of everything that determines a dataset, except its traces."""
    digest = hashlib.sha256(f"{FORMAT_VERSION} {SCHEMA_VERSION} {make_digest(rules)}".encode())
    wanted = {*analyses, *run_analyses_of(analyses, 2)}
    for name, text in load_catalog().analyses.texts():
        if name in wanted:
            digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()


def make_dataset(
    traces: Sequence[TraceFile],
    job: JobSpec,
    engine: Engine,
    progress: Callable[[RunProgress], None] | None = None,
    *,
    worker_count: int = 1,
    replaces: bool = False,
) -> Manifest:
    """Write a dataset, or complete an existing one.

    Complete shards of an earlier attempt are reused. The manifest lists unreadable traces and is
    written last. Batches depend on `worker_count` but not on the engine, so all engines write the
    same files.
    """
    dataset = job.dataset
    before = None if replaces else read_manifest(dataset)
    if before is not None and not _is_continued(before, traces, job):
        raise exists_already(dataset)
    folder = temporary_folder()
    try:
        small = SmallFiles(folder / "small", job.memory_bytes)
        state = RunProgress(len(traces), sum(trace.text_bytes for trace in traces))
        try:
            shards = _complete_shards(traces, job, small)
            done = {one for ids, _ in shards for one in ids}
            open_traces = [trace for trace in traces if trace.trace_id not in done]
            state.done_count = len(done)
            state.done_bytes = state.text_bytes - sum(trace.text_bytes for trace in open_traces)
            batches = make_batches(open_traces, job.memory_bytes, worker_count)
            with contextlib.closing(engine.run(batches, job)) as results:
                for result in results:
                    for shard in result.shards:
                        ids = tuple(trace.trace_id for trace in shard.traces)
                        small.add(ids, shard.small)
                        shards.append((ids, shard.files))
                    state.take(result)
                    if progress is not None:
                        progress(state)
            if not shards:
                # Report a full disk instead of faulty traces.
                first = min(
                    state.failures, key=lambda one: (not one.is_disk_full, one.trace.trace_id)
                )
                if first.is_disk_full:
                    raise StoreError(first.reason, hint=first.hint)
                raise TraceError(first.reason, hint=first.hint)
            manifest = _manifest(traces, job, sorted(shards), state.failures, small, folder)
            analyses = dict(manifest.analyses)
            for name, path, row_count in write_run_rows(dataset, manifest, folder):
                folder_name = f"analyses/{name}"
                analyses[name] = put_file(dataset, folder_name, "all", path, row_count)
            manifest = replace(manifest, analyses=dict(sorted(analyses.items())))
            _write_manifest(dataset, manifest, before, replaces=replaces)
            if not manifest.missing:
                _remove_unnamed_files(dataset, manifest)
            return manifest
        except OSError as error:
            raise _not_written(dataset, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_continued(before: Manifest, traces: Sequence[TraceFile], job: JobSpec) -> bool:
    """Return whether a dataset with the same recipe is incomplete and has only these traces."""
    sources = {trace.location.shown for trace in traces}
    of_before = {trace.location for trace in before.traces}
    of_before |= {missing.location for missing in before.missing}
    return bool(before.missing) and before.recipe == job.recipe and of_before <= sources


_Shard = tuple[tuple[int, ...], dict[str, "File"]]
"""Trace ids of a shard, and its files by table."""


def _complete_shards(traces: Sequence[TraceFile], job: JobSpec, small: SmallFiles) -> list[_Shard]:
    shards: list[_Shard] = []
    entries = {trace.trace_id: trace.entry for trace in traces}
    for description, files in read_shards(job.dataset, job.recipe, entries):
        ids = tuple(trace.trace_id for trace in description.traces)
        small.add(ids, files)
        shards.append((ids, description.files))
    return shards


def _manifest(
    traces: Sequence[TraceFile],
    job: JobSpec,
    shards: Sequence[_Shard],
    failures: Sequence[Failure],
    small: SmallFiles,
    folder: Path,
) -> Manifest:
    dataset = job.dataset
    tables: dict[str, list[File]] = {}
    analyses: dict[str, File] = {}
    for number, (_, files) in enumerate(shards):
        for table, file in sorted(files.items()):
            tables.setdefault(table, []).append(replace(file, shard=number))
    for name, path, row_count in small.consolidated():
        file = put_file(dataset, name, "all", path, row_count)
        kind, _, plain = name.partition("/")
        if kind == "tables":
            tables.setdefault(plain, []).append(file)
        else:
            analyses[plain] = file
    has_requests = has_benchmarks = False
    for table, path, row_count in write_run_tables(job.runs, folder):
        has_requests |= table == "request"
        has_benchmarks |= table == "benchmark"
        file = put_file(dataset, f"tables/{table}", "runs", path, row_count)
        tables.setdefault(table, []).append(file)
    numbers = small.ranks
    read = {one for ids, _ in shards for one in ids}
    return Manifest(
        recipe=job.recipe,
        tracekit_version=__version__,
        traces=[
            replace(trace.entry, rank=numbers.get(trace.trace_id))
            for trace in traces
            if trace.trace_id in read
        ],
        missing=sorted(
            (
                Missing(one.trace.trace_id, one.trace.location.shown, one.reason, one.hint)
                for one in failures
            ),
            key=lambda missing: missing.trace_id,
        ),
        shards=[list(ids) for ids, _ in shards],
        tables=dict(sorted(tables.items())),
        analyses=dict(sorted(analyses.items())),
        runs=[str(run) for run in job.runs],
        made_by=make_digest(),
        rules=job.rules_text,
        has_requests=has_requests,
        has_benchmarks=has_benchmarks,
    )


def _write_manifest(
    dataset: Location, manifest: Manifest, before: Manifest | None, *, replaces: bool
) -> None:
    """Publish the dataset, unless another writer has published one."""
    place = dataset.join(MANIFEST_NAME)
    if replaces or (before is not None and read_manifest(dataset) == before):
        place.write_bytes(manifest.encoded())
        return
    try:
        place.write_new(manifest.encoded())
    except FileExistsError:
        raise exists_already(dataset) from None


def _remove_unnamed_files(dataset: Location, manifest: Manifest) -> None:
    with contextlib.suppress(OSError):
        dataset.join(SHARDS).delete_tree()
    named = {file.name for file in manifest.files}
    for kind in ("tables", "analyses"):
        for inside in dataset.join(kind).entries():
            for file in inside.entries():
                if f"{kind}/{inside.name}/{file.name}" not in named:
                    with contextlib.suppress(OSError):
                        file.delete()


def exists_already(dataset: Location) -> StoreError:
    return StoreError(f"{dataset.shown}: already exists", hint="use --force to replace it")


def _not_written(dataset: Location, error: OSError) -> StoreError:
    if error.errno == errno.ENOSPC:
        return StoreError(
            f"{dataset.shown}: the disk is full",
            hint="free space and run the command again: it continues from the completed ranks",
        )
    return StoreError(f"{dataset.shown}: cannot be written: {error.strerror or error}")


def write_run_rows(
    dataset: Location, manifest: Manifest, folder: Path
) -> Iterator[tuple[str, Path, int]]:
    """Yield the analyses of scope ``run`` of a dataset, each with its file and number of rows.

    A file exists only until the next one is requested. If memory runs out, no analysis is stored;
    analyses then run on demand.
    """
    import duckdb

    from tracekit.analysis.relations import ensure
    from tracekit.dataset.opening import open_listed

    names = run_analyses_of(manifest.analyses, len(manifest.traces))
    if not names:
        return
    target = folder / "run_rows.parquet"
    with contextlib.ExitStack() as resources:
        opened = open_listed(dataset, manifest, resources, unsafe=True)
        connection = resources.enter_context(opened.connection)
        # Floating-point sums depend on the number of threads.
        connection.execute("SET threads = 1")
        try:
            ensure(connection, names)
        except DamagedStoreError:
            raise
        except (duckdb.OutOfMemoryException, StoreError):
            return
        for name in names:
            written = connection.execute(
                f"COPY (FROM {SESSION}.main.{name}) TO {quote(str(target))} ({WRITTEN_AS})"
            ).fetchone()
            yield name, target, written[0] if written else 0
            with contextlib.suppress(OSError):
                target.unlink()
