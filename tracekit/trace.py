"""Traces as a library sees them: ask a question, get columns and rows."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tracekit.analysis.breakdown import (
    ADVICE,
    BENCH_BREAKDOWN,
    BREAKDOWN,
    FULL_BREAKDOWN,
    HEALTH,
    RANKS_BREAKDOWN,
    RUN_BREAKDOWN,
    RUN_HEALTH,
    SERVED_BREAKDOWN,
    SERVING_BREAKDOWN,
    TOTALS,
)
from tracekit.analysis.scopes import Contents
from tracekit.errors import StoreError
from tracekit.storage import place_of

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.arrow_rows import ArrowRows
    from tracekit.analysis.ceiling_sources import Sources as CeilingSources
    from tracekit.analysis.query_folders import Library
    from tracekit.analysis.result import Result, RowStream
    from tracekit.analysis.spec import Spec
    from tracekit.plot import Plots
    from tracekit.prediction.advising import Advised
    from tracekit.prediction.predicting import Prediction
    from tracekit.prediction.serving import ServingPrediction

T = TypeVar("T")


class Trace:
    """One trace, the traces of one run, or the manifests of several, ready to be asked.

    Make one with :func:`tracekit.open`. It is a context manager; :meth:`close` frees its store.
    """

    def __init__(
        self,
        connection: Callable[[], duckdb.DuckDBPyConnection] | duckdb.DuckDBPyConnection,
        store_path: Path | None,
        resources: contextlib.ExitStack,
        contents: Contents | None = None,
        answers: Mapping[str, Result] | None = None,
        renew: Callable[[contextlib.ExitStack], duckdb.DuckDBPyConnection] | None = None,
        ceilings: CeilingSources | None = None,
        query_folders: Sequence[Path] = (),
        missing: Sequence[tuple[str, str]] = (),
        left_out: Sequence[str] = (),
        open_whole: Callable[[], Trace] | None = None,
        keep: Callable[[Mapping[str, Result]], None] | None = None,
        derive: Callable[[Iterable[str] | None], None] | None = None,
    ) -> None:
        self._renew = renew
        self._left_out = frozenset(left_out)
        self._open_whole = open_whole
        self._ceilings = ceilings
        self._ceiling_folders = [*map(place_of, contents.runs)] if contents else []
        self._has_ceilings = False
        self._query_folders = query_folders
        self._library: Library | None = None
        self._given_connection = connection
        self._keep = keep
        self._derive = derive
        self._is_closed = False
        self._store_path = store_path
        self._resources = resources
        self._known_contents = contents
        self._answers: Mapping[str, Result] = answers or {}
        self.missing = tuple(missing)
        """The traces that should be here and could not be read: where each lies, and why."""

    def __repr__(self) -> str:
        """Return what it is of, without reading anything."""
        if self._is_closed:
            return "<Trace: closed>"
        contents = self._known_contents
        if contents is not None and contents.runs:
            names = ", ".join(repr(str(run)) for run in contents.runs[:3])
            more = ", …" if len(contents.runs) > 3 else ""
            traces = "traces" if contents.has_traces else "manifests"
            return f"<Trace: {traces} of {names}{more}>"
        of = contents.files if contents else ()
        named = ", ".join(map(repr, of[:3])) + (f" and {len(of) - 3:,} more" if len(of) > 3 else "")
        return f"<Trace: {named or self._store_path or 'in memory'}>"

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The connection, opened now where nothing that was asked so far needed it."""
        if callable(self._given_connection):
            self._given_connection = self._given_connection()
        return self._given_connection

    @_connection.setter
    def _connection(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._given_connection = connection

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection to the store, for whatever :meth:`sql` does not do.

        Raises:
            StoreError: the trace is closed.
        """
        self._become_whole()
        return self._asked_connection

    @property
    def _asked_connection(self) -> duckdb.DuckDBPyConnection:
        if self._is_closed:
            raise StoreError("the trace is closed", hint="ask before close(), inside of its with")
        if not self._has_ceilings:
            from tracekit.analysis.ceiling_sources import lay

            if not self._ceiling_sources.are_empty():
                self._have((), "accelerator")
            lay(self._connection, self._ceiling_sources)
            self._has_ceilings = True
        return self._connection

    @property
    def _ceiling_sources(self) -> CeilingSources:
        if self._ceilings is None:
            from tracekit.analysis.ceiling_sources import Sources

            self._ceilings = Sources(folders=self._ceiling_folders)
        return self._ceilings

    @property
    def store_path(self) -> Path | None:
        """The store's file; None where it is only in memory."""
        return self._store_path

    @property
    def library(self) -> Library:
        """The SQL files of the user's own, with where each comes from.

        Those named to :func:`open` and those of the configuration.

        Raises:
            QueryError: a file in a folder that was named cannot be used.
        """
        if self._library is None:
            from tracekit.analysis.query_folders import load_library

            self._library = load_library(self._query_folders)
        return self._library

    def query(self, name: str, /, **params: object) -> Result:
        """Run an analysis.

        Args:
            name: of the analysis, as ``tracekit query --list`` shows it.
            **params: its parameters; the rest have their defaults.

        Raises:
            QueryError: there is no such analysis or parameter, or nothing here that it is about.
            UsageError: a parameter has the wrong type, or the analysis is about one run and here
                are several.
        """
        return self._ask(lambda: self._query(name, params))

    def assume_peaks(self, device: str | None = None, **peaks: float) -> None:
        """Measure against peaks that the traces do not tell; figures say that they were given.

        Args:
            device: a device of queries/rules/devices.toml, in place of those of the traces.
            **peaks: by type of number, as ``bf16``, dense FLOP/s; as ``memory``, bytes/s.

        Raises:
            QueryError: the device is not known.
        """
        from tracekit.analysis.device_peaks import lay_peaks

        self._become_whole()
        lay_peaks(self._asked_connection, device, peaks)
        # What is kept of a store was measured against the peaks of its own, and is to stay so.
        self._answers, self._keep, self._renew = {}, None, None

    def _ask(self, question: Callable[[], T]) -> T:
        """Return the answer to a question; a cached store that is damaged is made again first."""
        from tracekit.database import DamagedStoreError

        try:
            return question()
        except DamagedStoreError as error:
            if self._renew is None or self._is_closed:
                raise error.of(self._store_path) from error.__cause__
            renew, self._renew = self._renew, None
            self._connection.close()
            self._connection = renew(self._resources)
            self._answers = {}
            self._has_ceilings = False
            return question()

    def _query(self, name: str, params: Mapping[str, object]) -> Result:
        from tracekit.analysis.catalog import load_catalog

        spec = load_catalog().analyses.get(name)
        if spec is None:
            from tracekit.analysis.user_queries import run_own_analysis

            own = self.library.analysis(name)
            self._check_scope(own.spec)
            self._become_whole()
            return run_own_analysis(self._asked_connection, self.library, own, params)
        if name == HEALTH and self._contents.runs and not params:
            of_traces = None
            if self._contents.has_traces:
                of_traces = self._answer(spec, params)
            return self._with_health_of_run(of_traces)
        self._check_scope(spec)
        return self._answer(spec, params)

    def _answer(self, spec: Spec, params: Mapping[str, object]) -> Result:
        import duckdb

        from tracekit.analysis.run import run_analysis

        known = self._known()
        if not params and spec.name in known:
            return known[spec.name]
        try:
            self._have([spec])
            return run_analysis(self._asked_connection, spec, params, known)
        except duckdb.CatalogException:
            # What a breakdown does without is not there.
            if not self._become_whole():
                raise
        return run_analysis(self._asked_connection, spec, params, self._known())

    def _have(self, specs: Iterable[Spec], *tables: str) -> None:
        """Have tables, and what analyses require, where that is made when it is asked for."""
        if self._derive is not None and not self._is_closed:
            from tracekit.analysis.catalog import tables_behind

            self._derive([*tables, *tables_behind(specs)])

    def _become_whole(self) -> bool:
        """Have all that a store has, where a part of it is here; return whether it was only that.

        Raises:
            TraceError: not one trace can be read any more.
            StoreError: what they become cannot be written, or this is closed.
        """
        if self._derive is not None and not self._is_closed:
            self._derive(None)
            self._derive = None
            return True
        if self._open_whole is None or self._is_closed:
            return False
        open_whole, self._open_whole = self._open_whole, None
        self._left_out = frozenset()
        other = open_whole()
        self._connection.close()
        self._resources.callback(other.close)
        self._connection, self._store_path = other._connection, other._store_path
        self._answers, self._renew, self.missing = other._answers, other._renew, other.missing
        self._has_ceilings = False
        return True

    def sql(self, text: str) -> Result:
        """Run SQL over the tables and views of the store.

        Raises:
            QueryError: DuckDB refuses the statement.
        """
        from tracekit.analysis.run import run_sql

        return self._ask(lambda: run_sql(self._connection_for(text), text))

    def stream_sql(self, text: str, *, timeout_s: float | None = None) -> RowStream:
        """Run SQL whose rows are made while they are taken, so that any number of them fits.

        Nothing else may be asked until the last row has been taken.

        Args:
            text: the SQL.
            timeout_s: how long it may take until the last row is there, seconds.

        Raises:
            QueryError: DuckDB refuses the statement, or it takes too long; also while rows are
                taken.
        """
        from tracekit.analysis.run import stream_sql

        return self._ask(lambda: stream_sql(self._connection_for(text), text, timeout_s=timeout_s))

    def stream_arrow(self, text: str) -> ArrowRows:
        """Run one SQL statement; its rows come as an Arrow stream, to be read before all else."""
        from tracekit.analysis.arrow_rows import stream_arrow

        return self._ask(lambda: stream_arrow(self._connection_for(text), text))

    def _connection_for(self, text: str) -> duckdb.DuckDBPyConnection:
        """Return the connection with what the statement names of the user's own SQL files."""
        self._become_whole()
        if self.library.files:
            from tracekit.analysis.user_queries import lay_named

            lay_named(self._asked_connection, self.library, text)
        return self._asked_connection

    def pivot(
        self,
        rows: str | Sequence[str],
        columns: str | None = None,
        values: str = "wall_ns",
        where: str | None = None,
        step: int | None = None,
    ) -> Result:
        """Return sums of what the devices did, grouped by any of the columns of view ``work``.

        Args:
            rows: dimensions, such as ``module`` or ``("phase", "class")``; a row for each value.
            columns: the dimension whose values become columns; None for the total alone.
            values: the sum: wall_ns, idle_ns, span_ns (both), kernel_ns, kernel_count or bytes.
            where: a condition in SQL over the columns of the view: ``"class = 'gemm'"``.
            step: only this step.

        Returns:
            The dimensions as text; a column for each value of `columns`, its unit at the end of the
            name; their sum; its share of all, 0 to 100. The last row is the sum of the others.

        Raises:
            UsageError: there is no such dimension or measure.
            QueryError: DuckDB refuses the condition.
        """
        from tracekit.analysis.pivot import pivot

        names = (rows,) if isinstance(rows, str) else rows
        return pivot(self.sql, names, columns, values, where, step)

    def predict(
        self, *changes: str, timeline: Path | None = None, further: Sequence[Trace] = ()
    ) -> Prediction | ServingPrediction:
        """Return what the device window would be under changes that are made together.

        Of changes of a serving run's load or engine, such as ``"rate x2"``, it is what requests
        would see.

        Args:
            *changes: such as ``"class=gemm x0.5"``, ``"host x0.5"`` or ``"batch limit=8"``.
            timeline: where to write the predicted run, as a Chrome trace; of a folder, one a rank.
            further: runs of another batch or sequence, for changes like ``"batch=8"``; of bench,
                for those of links.

        Raises:
            UsageError: a text is no change.
            QueryError: the trace has nothing of what is changed, or does not tell what that needs.
            StoreError: the timeline cannot be written.
        """
        from tracekit.prediction.predicting import predict

        self._become_whole()
        asked = [lambda statement, run=run: run.sql(statement).rows for run in further]
        return self._ask(lambda: predict(self._asked_connection, changes, timeline, asked))

    def advise(self) -> Advised:
        """Return what to change, ranked by what a replay says that it would gain.

        Raises:
            QueryError: there is no trace here, or a rule of the user's own has failed.
        """
        from tracekit.analysis.catalog import load_catalog
        from tracekit.prediction.advising import advise, is_rule
        from tracekit.prediction.predicting import Predictor
        from tracekit.prediction.serving import LoadPredictor

        self._become_whole()
        ((has_load, has_trace),) = self.sql("SELECT EXISTS (FROM request), EXISTS (FROM trace)")
        ours = [
            one.name
            for one in load_catalog().analyses.titles()
            if one.subject == "advice"
            and (has_load if one.scope == "runs" else has_trace or not has_load)
        ]
        own = [name for name, one in self.library.analyses.items() if is_rule(one.spec)]
        longest = "SELECT coalesce(max(window_ns), 0) FROM device_windows"
        window_ns = self.sql(longest).rows[0][0] if has_trace else 0
        rules = [(name, functools.partial(self._query, name, {})) for name in (*ours, *own)]
        advised = self._ask(
            lambda: advise(
                rules,
                lambda: Predictor(self._asked_connection),
                lambda: LoadPredictor(self._asked_connection),
                window_ns,
            )
        )
        # A rule may look at what was measured on this device, which may change.
        of_traces = not own and self._ceiling_sources.are_empty()
        if self._keep is not None and of_traces and self._answers:
            self._keep({**self._answers, ADVICE: advised.as_result()})
        return advised

    @property
    def known_advice(self) -> Result | None:
        """The advice that was given of these traces before, best first; None where none was."""
        return self._known().get(ADVICE)

    def health(self) -> Result:
        """Return what the figures of this trace rest on; the same as ``query("health")``."""
        return self.query("health")

    def breakdown(self, *, full: bool = False) -> dict[str, Result]:
        """Return the results of a breakdown by analysis name.

        They are those of :data:`BREAKDOWN`, in this order; of a run folder also those of
        :data:`RUN_BREAKDOWN`, with requests those of :data:`SERVING_BREAKDOWN` and
        :data:`SERVED_BREAKDOWN`, and with microbenchmarks those of :data:`BENCH_BREAKDOWN`; behind
        each comes what :data:`TOTALS` makes of it.

        Args:
            full: also those of :data:`FULL_BREAKDOWN`, of the critical path.

        Raises:
            UsageError: there are several runs here.
        """
        results = self._ask(self._breakdown)
        # Where only what a breakdown needs is here, there is no graph to walk.
        if full and self._contents.has_traces and not self._left_out:
            results |= {name: self.query(name) for name in FULL_BREAKDOWN}
        return results

    def _breakdown(self) -> dict[str, Result]:
        from tracekit.analysis.catalog import load_catalog
        from tracekit.analysis.macros import rows_kept
        from tracekit.analysis.run import run_analyses, run_reductions
        from tracekit.analysis.scopes import several

        contents = self._contents
        names: list[str] = [*BREAKDOWN] if contents.has_traces else []
        if contents.runs:
            names[1:1] = RUN_BREAKDOWN
            if contents.has_requests:
                served = SERVED_BREAKDOWN if contents.has_traces else ()
                names[2:2] = [*SERVING_BREAKDOWN, *served]
            if contents.has_benchmarks:
                names += BENCH_BREAKDOWN
        if not contents.has_traces and len(contents.runs) > 1:
            raise several("breakdown", contents.runs)
        catalog = load_catalog()
        known = self._known()
        if self._left_out:
            from tracekit.analysis.catalog import tables_behind

            # Something was measured on devices since this was opened.
            asked = (catalog.analysis(name) for name in names if name not in known)
            if self._left_out & tables_behind(asked):
                self._become_whole()
                known = self._known()
        of_ranks = RANKS_BREAKDOWN if self._trace_count(known) > 1 else ()
        place = names.index("phases") if of_ranks else 0
        names[place:place] = [name for name in of_ranks if not catalog.analysis(name).reduces]
        reducing = [TOTALS[name] for name in names if name in TOTALS]
        reducing += [name for name in of_ranks if name not in names]
        specs = [catalog.analysis(name) for name in names if name not in known]
        reductions = [catalog.analysis(name) for name in reducing if name not in known]
        # Of what is known each is read when it is asked for: no others are.
        reduced = [one.analysis for spec in reductions for one in spec.reduces]
        wanted = dict.fromkeys((*names, *reducing, *reduced))
        answers = {name: known[name] for name in wanted if name in known}
        unknown = [catalog.analysis(name) for name in wanted if name not in answers]
        if unknown:
            self._have(unknown)
            connection = self._asked_connection
            with rows_kept(connection, unknown if of_ranks else ()):
                answers |= {one.name: one for one in run_analyses(connection, specs)}
                reduced_now = run_reductions(connection, reductions, answers)
                answers |= {one.name: one for one in reduced_now}
        rest = [name for name in names[place:] if name not in of_ranks]
        names = [*names[:place], *of_ranks, *rest]
        names = [n for name in names for n in (name, TOTALS.get(name)) if n is not None]
        found = {name: answers[name] for name in names}
        if contents.runs:
            answers[RUN_HEALTH] = self._answer(catalog.analysis(RUN_HEALTH), {})
            found[HEALTH] = self._with_health_of_run(found.get(HEALTH), answers[RUN_HEALTH])
        if self._keep is not None and unknown and self._ceiling_sources.are_empty():
            self._keep(answers)
        return found

    def _trace_count(self, known: Mapping[str, Result]) -> int:
        if "trace" in known:
            return len(known["trace"])
        ((count,),) = self._asked_connection.execute("SELECT count(*) FROM trace").fetchall()
        return int(count)

    def _known(self) -> Mapping[str, Result]:
        """Return the answers that were there when this was opened, and still hold.

        What was measured on devices may have come since.
        """
        if not self._answers or self._ceiling_sources.are_empty():
            return self._answers
        from tracekit.analysis.session_tables import WithoutCeilings

        return WithoutCeilings(self._answers)

    def _with_health_of_run(self, of_traces: Result | None, of_run: Result | None = None) -> Result:
        """Return the health of traces with what their run's manifest says of itself."""
        from tracekit.analysis.catalog import load_catalog
        from tracekit.analysis.result import Column, Result
        from tracekit.analysis.scopes import several

        # Traces are read of one run; the fragments of a job are one.
        if len(self._contents.runs) > 1 and not self._contents.has_traces:
            raise several(HEALTH, self._contents.runs)
        catalog = load_catalog()
        if of_run is None:
            of_run = self._answer(catalog.analysis(RUN_HEALTH), {})
        columns = tuple(Column(c.name, c.type) for c in catalog.analysis(HEALTH).columns)
        before = [] if of_traces is None else of_traces.rows
        return Result(HEALTH, columns, before + [(None, *row[1:]) for row in of_run])

    @property
    def _contents(self) -> Contents:
        if self._known_contents is None:
            from tracekit.analysis.run import run_sql

            (found,) = run_sql(
                self._asked_connection,
                "SELECT EXISTS (FROM trace), list(path ORDER BY rowid), EXISTS (FROM request), "
                "EXISTS (FROM benchmark) FROM run",
            )
            self._known_contents = Contents(found[0], tuple(found[1] or ()), *found[2:])
        return self._known_contents

    def _check_scope(self, spec: Spec) -> None:
        from tracekit.analysis.scopes import check_scope

        check_scope(spec, self._contents)

    def reasons_for_none(self, name: str) -> list[str]:
        """Return why an analysis has no row, as far as that is known."""
        from tracekit.analysis.catalog import load_catalog

        catalog = load_catalog()
        own = None if name in catalog.analyses else self.library.analysis(name)
        spec = catalog.analysis(name) if own is None else own.spec
        reasons: list[str] = []
        if spec.scope == "trace" and spec.name != "unrecorded":
            sql = "SELECT DISTINCT reason FROM accelerator WHERE NOT is_recorded"
            reasons += self.sql(sql).column("reason")
        for relation, reason in spec.empty:
            if not relation or not self.sql(f"SELECT 1 FROM {relation} LIMIT 1").rows:
                return [*reasons, reason]
        return reasons

    def _repr_html_(self) -> str:
        """Return what the trace holds as HTML, which is how a notebook shows it."""
        from tracekit import trace_html

        return trace_html(self)

    @property
    def plot(self) -> Plots:
        """The charts of this trace, each a method: ``trace.plot.modules()``."""
        from tracekit import Plots

        return Plots(self)

    def close(self) -> None:
        """Close the store."""
        self._is_closed = True
        if not callable(self._given_connection):
            self._connection.close()
        self._resources.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
