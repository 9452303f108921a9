"""Reads the traces of many ranks in batches, usually in parallel, and opens the dataset."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tracekit.analysis.breakdown import BREAKDOWN, SERVED_BREAKDOWN
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import library_file
from tracekit.analysis.names.rules import check_rules
from tracekit.analysis.scopes import Contents
from tracekit.database.connections import create_tables
from tracekit.dataset.layout import SUFFIX
from tracekit.dataset.manifest import Manifest, read_manifest
from tracekit.engine.choice import EngineChoice
from tracekit.engine.dataset_writer import RunProgress, make_dataset, recipe_of
from tracekit.engine.work import JobSpec, TraceFile
from tracekit.errors import StoreError, TraceError, UsageError
from tracekit.ingest.sources import (
    find_sources,
    has_benchmarks,
    has_requests,
    named_paths,
    usual_text_bytes,
)
from tracekit.storage import Location, Place
from tracekit.storage.temp_dirs import temporary_folder
from tracekit.trace import OpenStore

if TYPE_CHECKING:
    import duckdb

    from tracekit.engine.engines import Engine
    from tracekit.ingest.sources import Sources

_log = logging.getLogger("tracekit")


class DistributedIngest(Struct, frozen=True):
    sources: Sources
    contents: Contents
    choice: EngineChoice
    rules: Path | None = None
    progress: Callable[[RunProgress], None] | None = None

    def make(
        self, dataset: Location, analyses: Sequence[str] | None = None, *, replaces: bool = False
    ) -> Manifest:
        wanted = tuple(self._of_breakdown() if analyses is None else analyses)
        engine, count, memory_bytes = self._engine()
        job = JobSpec(
            analyses=wanted,
            dataset=dataset,
            recipe=recipe_of(self.rules, wanted),
            rules_text=None if self.rules is None else self.rules.read_text(encoding="utf-8"),
            runs=tuple(self.sources.runs),
            memory_bytes=memory_bytes,
        )
        return make_dataset(
            self._trace_files(),
            job,
            engine,
            self.progress,
            worker_count=count,
            replaces=replaces,
        )

    def open(
        self, resources: contextlib.ExitStack, *, is_cached: bool, is_unsafe: bool
    ) -> OpenStore:
        from tracekit.dataset.opening import open_dataset

        place = self._cached_path() if is_cached else self._temporary_path(resources)
        dataset = Location.of(place)
        is_complete = is_cached and self._is_complete(dataset)
        manifest = None if is_complete else self._write_or_reuse(dataset)
        try:
            result = open_dataset(dataset, resources, unsafe=is_unsafe)
        except StoreError:
            if not is_complete:
                raise
            self._delete_damaged(place)
            manifest = self._write_or_reuse(dataset)
            result = open_dataset(dataset, resources, unsafe=is_unsafe)
        if is_cached:
            from tracekit.database.cache import forget_older, touch

            forget_older(place)
            touch(place)

        def make_again(resources: contextlib.ExitStack) -> duckdb.DuckDBPyConnection:
            self._delete_damaged(place)
            self._write_or_reuse(dataset)
            return open_dataset(dataset, resources, unsafe=is_unsafe).connection

        missing = (manifest or result.manifest).missing
        return OpenStore(
            result.connection,
            place if is_cached else None,
            make_again if is_cached else None,
            tuple((one.location, one.reason) for one in missing),
        )

    def _of_breakdown(self) -> list[str]:
        return [*BREAKDOWN, *(SERVED_BREAKDOWN if self.contents.has_requests else ())]

    def _trace_files(self) -> list[TraceFile]:
        if self.sources.counters:
            raise UsageError(
                f"{self.sources.counters[0]}: counter samples cannot be read together "
                "with many ranks",
                hint="save them in the run folder as power.csv",
            )
        if extra := [*self.sources.execution_traces, *self.sources.captures]:
            raise UsageError(
                f"{extra[0]}: execution traces and captures cannot be read together with "
                "many ranks",
                hint="use -o NAME.duckdb to create a store, which supports them",
            )
        run_ids = self._run_ids()
        files = []
        for trace_id, trace in enumerate(self.sources.traces):
            location = Location.of(trace)
            try:
                identity = location.identity()
            except OSError as error:
                raise TraceError(
                    f"{location.shown}: cannot be read: {error.strerror or error}"
                ) from error
            text_bytes = usual_text_bytes(trace)
            files.append(
                TraceFile(trace_id, location, text_bytes, identity, run_ids.get(trace.parent))
            )
        return files

    def _run_ids(self) -> dict[Place, str]:
        if not self.sources.runs:
            return {}
        import duckdb

        from tracekit.ingest.runs import load_runs

        folder = temporary_folder()
        try:
            with duckdb.connect() as connection:
                create_tables(connection, library_file())
                ids = load_runs(connection, self.sources.runs, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return dict(zip(self.sources.runs, ids, strict=True))

    def _engine(self) -> tuple[Engine, int, int]:
        """Return the engine, the number of workers, and the memory of each worker in bytes."""
        from tracekit.engine.choice import shares
        from tracekit.engine.engines import make_engine

        choice = self.choice
        count, memory_bytes = shares(choice.worker_count, choice.memory_bytes)
        # A frozen program cannot start another Python interpreter.
        can_start = bool(sys.executable) and not getattr(sys, "frozen", False)
        name = choice.name or ("processes" if can_start else "serial")
        if name == "ray" and choice.worker_count is None and choice.memory_bytes is None:
            # Use all processors of the cluster, which may not include this machine.
            engine = make_engine(name, 0, address=choice.address)
            return engine, engine.worker_count, memory_bytes
        return make_engine(name, count, address=choice.address), count, memory_bytes

    def _cached_path(self) -> Path:
        from tracekit.database.cache import cached_store_path

        recipe = recipe_of(self.rules, self._of_breakdown())
        try:
            store = cached_store_path(self.sources.files, recipe)
        except OSError as error:
            name = error.filename or self.sources.files[0]
            raise TraceError(f"{name}: cannot be read: {error.strerror or error}") from error
        with contextlib.suppress(OSError):
            store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return store.with_suffix(SUFFIX)

    def _temporary_path(self, resources: contextlib.ExitStack) -> Path:
        folder = temporary_folder()
        resources.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder / f"ranks{SUFFIX}"

    def _is_complete(self, dataset: Location) -> bool:
        try:
            manifest = read_manifest(dataset)
        except StoreError:
            return False
        return manifest is not None and not manifest.missing

    def _write_or_reuse(self, dataset: Location) -> Manifest:
        """Write the dataset, or return the one that another process has already written."""
        try:
            return self.make(dataset)
        except StoreError:
            manifest = read_manifest(dataset)
            if manifest is None or not self._is_complete(dataset):
                raise
            return manifest

    def _delete_damaged(self, place: Path) -> None:
        _log.warning("%s: the cached dataset is damaged; creating it again", self.sources.files[0])
        shutil.rmtree(place, ignore_errors=True)


def ingest_dataset(
    paths: Sequence[str | Place],
    output: str | Place,
    *,
    force: bool = False,
    rules: Path | None = None,
    engine: EngineChoice | None = None,
    progress: Callable[[RunProgress], None] | None = None,
) -> Manifest:
    dataset = Location.of(output)
    if dataset.suffix != ".tracekit":
        raise UsageError(
            f"{dataset.shown}: dataset names end in .tracekit, and store names in .duckdb"
        )
    if rules is not None:
        check_rules(rules)
    with named_paths():
        sources = find_sources(paths)
    if not sources.traces:
        raise UsageError(
            "a dataset needs the traces of one run; found none or several runs",
            hint="pass the folder of one run",
        )
    contents = Contents(
        bool(sources.traces),
        tuple(map(str, sources.runs)),
        any(map(has_requests, sources.runs)),
        any(map(has_benchmarks, sources.runs)),
    )
    # Analyses with a required parameter cannot run without a value.
    answerable = [
        name
        for name, spec in load_catalog().analyses.items()
        if spec.scope == "trace" and not spec.needs and not any(p.is_required for p in spec.params)
    ]
    many = DistributedIngest(sources, contents, engine or EngineChoice(), rules, progress)
    return many.make(dataset, answerable, replaces=force)
