"""The Python interface to an opened trace: analyses, SQL, predictions, and advice."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from tracekit.analysis.breakdown import (
    FULL_BREAKDOWN,
    HEALTH,
    ROLES,
    RUN_HEALTH,
    breakdown_of,
    has_modules,
)
from tracekit.analysis.scopes import Contents
from tracekit.errors import StoreError, UsageError

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.query_folders import Library
    from tracekit.analysis.relations import Answer
    from tracekit.analysis.result import Result, RowStream
    from tracekit.analysis.run import ArrowRows
    from tracekit.analysis.spec import Spec
    from tracekit.plot import Plots
    from tracekit.prediction.advising import Advised
    from tracekit.prediction.edges import Ask
    from tracekit.prediction.predicting import Prediction, Predictor
    from tracekit.prediction.serving import ServingPrediction

T = TypeVar("T")


class OpenStore(Struct):
    """An open store.

    Attributes:
        connection: a connection to the store.
        path: the file of the store, or None if the store is in memory.
        renew: recreates and opens a damaged cached store.
        missing: path and reason of each trace that could not be read.
        derive: creates the named tables and views of an incomplete store; all missing ones for
        None.
        answer: returns the rows of analyses of an incomplete store without storing them.
    """

    connection: duckdb.DuckDBPyConnection
    path: Path | None = None
    renew: Callable[[contextlib.ExitStack], duckdb.DuckDBPyConnection] | None = None
    missing: tuple[tuple[str, str], ...] = ()
    derive: Callable[[Iterable[str] | None], None] | None = None
    answer: Callable[[Iterable[str]], dict[str, Answer]] | None = None

    def make(self, names: Iterable[str]) -> None:
        """Create the named relations that do not exist yet."""
        if self.derive is not None:
            self.derive(names)
        else:
            from tracekit.analysis.relations import ensure

            ensure(self.connection, names)

    def make_all(self) -> None:
        """Create all relations of a store."""
        if self.derive is not None:
            self.derive(None)
            self.derive = self.answer = None


class Trace:
    """One trace, the traces of one run, or the manifests of several runs.

    Create it with :func:`tracekit.open`. It is a context manager; :meth:`close` closes its store.
    """

    def __init__(
        self,
        store: OpenStore,
        resources: contextlib.ExitStack,
        contents: Contents | None = None,
        peak_rates: Sequence[Sequence[object]] = (),
        query_folders: Sequence[Path] = (),
    ) -> None:
        self._store = store
        self._resources = resources
        self._known_contents = contents
        self._peak_rates = peak_rates
        self._has_peak_rates = False
        self._query_folders = query_folders
        self._library: Library | None = None
        self._is_closed = False
        # The session has one table of graph edges, so only one run is replayed.
        self._predictors: dict[bool, Predictor] = {}

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """Path and reason of each trace that could not be read."""
        return self._store.missing

    def __repr__(self) -> str:
        """Return the names of the traces or runs, without reading anything."""
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
        return f"<Trace: {named or self._store.path or 'in memory'}>"

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection to the store, for operations that :meth:`sql` does not support.

        Raises:
            StoreError: the trace is closed.
        """
        connection = self._connection
        self._store.make_all()
        return connection

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        self._require_open()
        return self._store.connection

    def _require_open(self) -> None:
        """Raise an error if the store is closed; load the measured peak rates of devices once."""
        if self._is_closed:
            raise StoreError(
                "the trace is closed", hint="query before close(), inside its with block"
            )
        if self._peak_rates and not self._has_peak_rates:
            from tracekit.analysis.relations import Relations

            Relations(self._store.connection).fill("peak_rate_point", self._peak_rates)
            self._has_peak_rates = True

    @property
    def store_path(self) -> Path | None:
        """The file of the store, or None if it is in memory."""
        return self._store.path

    @property
    def library(self) -> Library:
        """The user's SQL files: from the folders given to :func:`open` and the configuration.

        Raises:
            QueryError: a file in a given folder cannot be used.
        """
        if self._library is None:
            from tracekit.analysis.query_folders import load_library

            self._library = load_library(self._query_folders)
        return self._library

    def query(self, name: str, /, **params: object) -> Result:
        """Run an analysis.

        Args:
            name: name of the analysis, as in ``tracekit query --list``.
            **params: parameters of the analysis; other parameters have their defaults. ``per``
                selects other rows and columns: ``query("phases", per="step")``.

        Returns:
            Rows with named columns; the suffix of a column name is its unit.

        Raises:
            QueryError: the analysis or parameter does not exist, or the trace does not have the
                data that the analysis needs.
            UsageError: a parameter has the wrong type, or several runs are open and the analysis
                needs one.
        """
        return self._ask(lambda: self._query(name, params))

    def assume_peaks(self, device: str | None = None, **peaks: float) -> None:
        """Use given peak rates of the device for utilization. Results name them as the source.

        Args:
            device: a device of queries/rules/devices.toml, instead of the one in the traces.
            **peaks: dense FLOP/s per data type, such as ``bf16``; ``memory`` in bytes/s.

        Raises:
            QueryError: the device is unknown.
        """
        from tracekit.analysis.names.device_peaks import DEVICE_PEAK, insert_peaks
        from tracekit.analysis.relations import Relations

        insert_peaks(self.connection, device, peaks)
        self._predictors.clear()
        Relations(self._connection).forget([DEVICE_PEAK])
        # A recreated store would lack these peak rates.
        self._store.renew = None

    def assume_unprofiled_step(self, step_ns: int) -> None:
        """Use a step time that was measured without the profiler, instead of an estimate.

        Args:
            step_ns: duration of the step, ns.

        Raises:
            UsageError: the duration is not positive.
        """
        from tracekit.analysis.relations import Relations
        from tracekit.database.connections import look_in_session_first

        if step_ns <= 0:
            raise UsageError("an unprofiled step must take more than 0 ns")
        self._predictors.clear()
        # Hide cached rows that depend on the estimate.
        look_in_session_first(self.connection)
        Relations(self.connection).fill("measured_step", [(step_ns, None, None, "given")])

    def _ask(self, question: Callable[[], T]) -> T:
        """Run a query. If the cached store is damaged, recreate it once and run the query again."""
        from tracekit.database.connections import DamagedStoreError

        try:
            return question()
        except DamagedStoreError as error:
            if self._store.renew is None or self._is_closed:
                raise error.of(self._store.path) from error.__cause__
            renew, self._store.renew = self._store.renew, None
            self._predictors.clear()
            self._store.connection.close()
            self._store.connection = renew(self._resources)
            self._has_peak_rates = False
            return question()

    def _query(self, name: str, params: Mapping[str, object]) -> Result:
        from tracekit.analysis.catalog import load_catalog, renamed

        analyses = load_catalog().analyses
        if name not in analyses and (today := renamed(name)) != name:
            warnings.warn(f"{name} is now {today}", FutureWarning, stacklevel=5)
            name = today
        if "per" in params and name in analyses:
            name = analyses.member(name, params["per"])
            params = {key: value for key, value in params.items() if key != "per"}
        spec = analyses.get(name)
        if spec is None:
            from tracekit.analysis.user_queries import run_own_analysis

            own = self.library.analysis(name)
            self._check_scope(own.spec)
            return run_own_analysis(self.connection, self.library, own, params)
        if name == HEALTH and self._contents.runs and not params:
            of_traces = None
            if self._contents.has_traces:
                of_traces = self._answer(spec, params)
            return self._with_health_of_run(of_traces)
        self._check_scope(spec)
        return self._answer(spec, params)

    def _answer(self, spec: Spec, params: Mapping[str, object]) -> Result:
        from tracekit.analysis.library import reads
        from tracekit.analysis.relations import has_rows_of
        from tracekit.analysis.run import run_analysis

        connection = self._connection
        if self._store.derive is not None and (params or not has_rows_of(connection, spec.name)):
            self._store.make(reads(spec.name))
        return run_analysis(connection, spec, params)

    def sql(self, text: str) -> Result:
        """Run SQL on the tables and views of the store.

        Raises:
            QueryError: DuckDB rejects the statement.
        """
        from tracekit.analysis.run import run_sql

        return self._ask(lambda: run_sql(self._connection_for(text), text))

    def stream_sql(self, text: str, *, timeout_s: float | None = None) -> RowStream:
        """Run SQL and return its rows as a stream, for results that may exceed memory.

        Read all rows before the next query.

        Args:
            text: the SQL.
            timeout_s: time limit for all rows, seconds.

        Raises:
            QueryError: DuckDB rejects the statement, or it exceeds the time limit; also raised
                while rows are read.
        """
        from tracekit.analysis.run import stream_sql

        return self._ask(lambda: stream_sql(self._connection_for(text), text, timeout_s=timeout_s))

    def stream_arrow(self, text: str) -> ArrowRows:
        """Run one SQL statement and return an Arrow stream. Read it before the next query."""
        from tracekit.analysis.run import stream_arrow

        return self._ask(lambda: stream_arrow(self._connection_for(text), text))

    def _connection_for(self, text: str) -> duckdb.DuckDBPyConnection:
        """Return the connection, after creating the user's analyses that the statement names."""
        connection = self.connection
        if self.library.files:
            from tracekit.analysis.user_queries import create_named

            create_named(connection, self.library, text)
        return connection

    def pivot(
        self,
        rows: str | Sequence[str],
        columns: str | None = None,
        values: str = "wall_ns",
        where: str | None = None,
        step: int | None = None,
    ) -> Result:
        """Return sums of device time, counts, or bytes, grouped by columns of view ``work``.

        Args:
            rows: dimensions, such as ``module`` or ``("phase", "class")``, with a row per value.
            columns: the dimension with a column per value, or None for only the total.
            values: measure to sum: wall_ns, idle_ns, span_ns (both), kernel_ns, kernel_count, or
                bytes.
            where: an SQL condition on the columns of the view, such as ``"class = 'gemm'"``.
            step: number of the only step to include.

        Returns:
            The dimensions as text, a column per value of `columns` with the unit as its suffix,
            the sum of these columns, and its share of the total in percent. The last row is the
            total.

        Raises:
            UsageError: the dimension or measure does not exist.
            QueryError: DuckDB rejects the condition.
        """
        from tracekit.analysis.pivot import pivot

        names = (rows,) if isinstance(rows, str) else rows
        return pivot(self.sql, names, columns, values, where, step)

    def predict(
        self,
        *changes: str,
        timeline: str | Path | None = None,
        further: Sequence[Trace] = (),
        is_recorded: bool = False,
    ) -> Prediction | ServingPrediction:
        """Predict the step time, or the latencies of a serving run, after all given changes.

        Args:
            *changes: changes such as ``"class=gemm x0.5"`` or ``"host x0.5"``; for the load or
                engine of a serving run, ``"rate x2"`` or ``"batch limit=8"``.
            timeline: output path of a Chrome trace of the predicted run, or a folder for one file
                per rank.
            further: additional runs: with another batch size or sequence length, for changes such
                as ``"batch=8"``; or from ``tracekit bench``, for changes of links.
            is_recorded: whether to predict the recorded run instead of the unprofiled run.

        Raises:
            UsageError: a change cannot be parsed.
            QueryError: the trace has no work that the change affects, or lacks data it needs.
            StoreError: the timeline cannot be written.
        """
        from tracekit.prediction.predicting import predict

        queries = [lambda statement, run=run: run.sql(statement).rows for run in further]
        place = None if timeline is None else Path(timeline)
        predictor = functools.partial(self._predictor, tuple(queries), is_recorded=is_recorded)
        return self._ask(lambda: predict(self.connection, predictor, changes, place))

    def _predictor(self, further: Sequence[Ask] = (), *, is_recorded: bool = False) -> Predictor:
        """Return the replay of the run, which all predictions of this session share."""
        from tracekit.prediction.predicting import Predictor

        known = self._predictors.get(is_recorded)
        if known is None or further:
            self._predictors.clear()
            known = Predictor(self.connection, further, is_recorded=is_recorded)
        if not further:
            self._predictors[is_recorded] = known
        return known

    def advise(self, *, is_recorded: bool = False) -> Advised:
        """Return suggested changes, sorted by their predicted gain per step.

        Args:
            is_recorded: whether to predict gains of the recorded run instead of the unprofiled run.

        Raises:
            QueryError: the run has neither a trace nor requests, or a rule in the user's SQL files
                fails.
        """
        from tracekit.analysis.catalog import load_catalog
        from tracekit.errors import QueryError
        from tracekit.prediction.advising import advise, is_rule
        from tracekit.prediction.serving import LoadPredictor

        ((has_load, has_trace),) = self.sql("SELECT EXISTS (FROM request), EXISTS (FROM trace)")
        if not has_load and not has_trace:
            raise QueryError(
                "the run has no trace or requests to advise on",
                hint="tracekit query run shows the result of the run",
            )
        ours = [
            one.name
            for one in load_catalog().analyses.titles()
            if one.subject == "advice"
            and (has_load if one.scope == "runs" else has_trace or not has_load)
        ]
        own = [name for name, one in self.library.analyses.items() if is_rule(one.spec)]
        longest = "SELECT coalesce(max(window_ns), 0) FROM device_windows"
        window_ns = self.sql(longest).rows[0][0] if has_trace else None
        rules = [(name, functools.partial(self._query, name, {})) for name in (*ours, *own)]
        return self._ask(
            lambda: advise(
                rules,
                lambda: self._predictor(is_recorded=is_recorded),
                lambda: LoadPredictor(self.connection),
                window_ns,
            )
        )

    def health(self) -> Result:
        """Return the data-quality checks of this trace; the same as ``query("health")``."""
        return self.query("health")

    def breakdown(self, *, full: bool = False) -> dict[str, Result]:
        """Return the results of a breakdown by analysis name.

        :func:`tracekit.analysis.breakdown.breakdown_of` defines the names and their order.

        Args:
            full: include :data:`FULL_BREAKDOWN`, which is about the critical path.

        Raises:
            UsageError: several runs are open.
        """
        results = self._ask(self._breakdown)
        if full and self._contents.has_traces:
            results |= {name: self.query(name) for name in FULL_BREAKDOWN}
        return results

    def _breakdown(self) -> dict[str, Result]:
        trace_count = self._trace_count()
        results = self.results(breakdown_of(self._contents, trace_count))
        if trace_count == 1 and not has_modules(results["module_totals"]):
            results |= self.results([ROLES])
        if self._contents.runs:
            results[HEALTH] = self._with_health_of_run(results.get(HEALTH))
        return results

    def results(self, names: Iterable[str]) -> dict[str, Result]:
        """Return the rows of analyses with their default parameters, computed two at a time.

        Raises:
            The errors of :meth:`query`.
        """
        from tracekit.analysis.catalog import load_catalog
        from tracekit.analysis.library import reads
        from tracekit.analysis.relations import is_relation
        from tracekit.analysis.result import Result
        from tracekit.analysis.run import check_declared

        specs = [load_catalog().analysis(name) for name in names]
        for spec in specs:
            self._check_scope(spec)
        self._require_open()
        answers: dict[str, Answer] = {}
        # In a complete store, analyses create missing relations and report failures themselves.
        if self._store.answer is not None:
            answers = self._store.answer(
                one
                for spec in specs
                for one in ([spec.name] if is_relation(spec.name) else reads(spec.name))
            )
        results = {}
        for spec in specs:
            if (answer := answers.get(spec.name)) is None:
                results[spec.name] = self._answer(spec, {})
            else:
                check_declared(spec, answer.columns)
                results[spec.name] = Result(spec.name, *answer)
        return results

    def _trace_count(self) -> int:
        if not self._contents.has_traces:
            return 0
        ((count,),) = self._connection.execute("SELECT count(*) FROM trace").fetchall()
        return int(count)

    def _with_health_of_run(self, of_traces: Result | None) -> Result:
        """Return the data-quality checks of traces, followed by the checks of the manifest."""
        from tracekit.analysis.catalog import load_catalog
        from tracekit.analysis.result import Column, Result
        from tracekit.analysis.scopes import several

        # Traces belong to one run, with the fragments of a job as one run.
        if len(self._contents.runs) > 1 and not self._contents.has_traces:
            raise several(HEALTH, self._contents.runs)
        catalog = load_catalog()
        of_run = self._answer(catalog.analysis(RUN_HEALTH), {})
        columns = tuple(Column(c.name, c.type) for c in catalog.analysis(HEALTH).columns)
        before = [] if of_traces is None else of_traces.rows
        return Result(HEALTH, columns, before + [(None, *row[1:]) for row in of_run])

    @property
    def _contents(self) -> Contents:
        if self._known_contents is None:
            from tracekit.analysis.run import run_sql

            (result,) = run_sql(
                self._connection,
                "SELECT EXISTS (FROM trace), list(path ORDER BY rowid), EXISTS (FROM request), "
                "EXISTS (FROM benchmark) FROM run",
            )
            self._known_contents = Contents(result[0], tuple(result[1] or ()), *result[2:])
        return self._known_contents

    def _check_scope(self, spec: Spec) -> None:
        from tracekit.analysis.scopes import check_scope

        check_scope(spec, self._contents)

    def reasons_for_none(self, name: str) -> list[str]:
        """Return the known reasons why an analysis has no rows."""
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
        """Return a summary as HTML, which notebooks display."""
        from tracekit import trace_html

        return trace_html(self)

    @property
    def plot(self) -> Plots:
        """The charts of this trace, one per method, such as ``trace.plot.modules()``."""
        from tracekit import Plots

        return Plots(self)

    def close(self) -> None:
        """Close the store."""
        self._is_closed = True
        self._store.connection.close()
        self._resources.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
