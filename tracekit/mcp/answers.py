"""Tools of the MCP server; answers are text within a token budget."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.pivot import MEASURES, dimensions
from tracekit.analysis.result import Column, Result
from tracekit.analysis.spec import Spec
from tracekit.errors import QueryError, TracekitError, UsageError, did_you_mean
from tracekit.ingest.trace_readers import Progress
from tracekit.mcp.folders import allowed, traces_in
from tracekit.opening import OpenRequest, open_request
from tracekit.render._text import printable
from tracekit.render.brief import MAX_TOKENS, USUAL_TOKENS, brief, counted, token_count
from tracekit.schema import TABLES
from tracekit.trace import Trace
from tracekit.units import GB

_ONLY_WITH = {
    "bench": "FROM benchmark",
    "communication": "FROM device_events WHERE kind = 'comm'",
    "compiled": "FROM compiled_regions",
    "memory": "FROM memory",
    "ranks": "FROM trace OFFSET 1",
    "runs": "FROM run",
    "serving": "SELECT 1 FROM request UNION ALL SELECT 1 FROM serving_step_ranges",
}
"""Subjects whose analyses need optional data, with the check for the data."""

_NEXT = {
    "open": "open without a trace lists the available runs and traces",
    "ask": "explain(topic=NAME) shows parameters and columns; explain() lists the analyses",
    "sql": "explain(topic=TABLE) shows its columns, explain() lists tables and views",
    "compare": "open without a trace lists the available ones; both sides need a trace",
    "advise": "explain(topic='changes') shows how changes are written",
    "explain": "explain() lists analyses, tables and views",
}

_OF_PIVOT = ("rows", "columns", "values", "where", "step")

_STATEMENT_BYTES = 2 * GB

_CHANGES = """a change is a selection and an action:
class=gemm x0.5 | op=aten::item remove | sync op=aten::item remove | host x0.5
host phase=forward x0.1 | module=PATH x0.5 | name=KERNEL* remove | range=NAME remove
call=cudaMalloc remove | loading workers=2
of a serving run: rate x2 | batch limit=8 | batch tokens=512 | kv tokens=65536 | prefill apart
all changes in the list are applied together"""


_REST = f"… more: ask(trace, NAME, skip_rows=N); complete names: max_tokens up to {MAX_TOKENS:,}"
_REST_OF_SQL = f"… more: LIMIT and OFFSET; complete names: max_tokens up to {MAX_TOKENS:,}"


class Tools(Struct, frozen=True):
    """The six tools; each is a method with the arguments of the protocol."""

    folders: Sequence[Path]
    progress: Callable[[Progress], None] | None = None

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the answer of a tool, and whether it is an error. Errors suggest a next step."""
        try:
            return getattr(self, name)(**arguments), False
        except TracekitError as error:
            lines = [f"error: {error.message}", *([f"hint: {error.hint}"] if error.hint else [])]
            if "open without" not in lines[-1]:
                lines.append(f"next: {_NEXT[name]}")
            return "\n".join(printable(line)[:1_500] for line in lines), True

    def _opened(self, trace: str, *, traces: bool = True) -> Trace:
        return open_request(
            OpenRequest([allowed(self.folders, trace)], progress=self.progress, reads_traces=traces)
        )

    def open(self, trace: str = "", max_tokens: int = USUAL_TOKENS) -> str:
        """Return the list of traces, or the contents, data quality, and analyses of one trace."""
        if not trace:
            step = "next: open(trace=NAME) describes it and shows how reliable it is"
            return brief(traces_in(self.folders), budget=max_tokens, before=[step])
        with self._opened(trace) as opened:
            ((has_traces, run_count),) = opened.sql(
                "SELECT EXISTS (FROM trace), (SELECT count(*) FROM run)"
            ).rows
            if not has_traces:
                step = "ask(trace, NAME) with an analysis of the subjects runs, serving, or bench"
                if run_count > 1:
                    step = "several runs: ask(trace, 'methods') compares them, or open one of them"
                return brief(opened.query("run"), budget=max_tokens, before=[f"next: {step}"])
            from tracekit.analysis.breakdown import is_small
            from tracekit.render.sections.device_time import step_of, step_sentence
            from tracekit.report.verdict import sentences

            names = ("trace", "timeline", "idle_cause_totals", "kernel_class_totals", "health")
            tables = {name: opened.query(name) for name in names}
            steps = [
                "step_totals",
                "run_idle",
                *(["unprofiled"] if is_small(tables["timeline"]) else []),
                *(["run"] if run_count else []),
            ]
            data = {name: opened.query(name) for name in steps}
            verdict, unrecorded = opened.query("verdict"), opened.query("unrecorded")
            classes = tables["kernel_class_totals"]
            lines = sentences(verdict, unrecorded, step_of(data), classes)
            if idle := step_sentence(data):
                lines.append(idle)
            tables = ({"run": opened.query("run")} if run_count else {}) | tables
            conditions = ", ".join(f"EXISTS ({rows})" for rows in _ONLY_WITH.values())
            (are_available,) = opened.sql(f"SELECT {conditions}").rows
        without = [
            name
            for name, is_available in zip(_ONLY_WITH, are_available, strict=True)
            if not is_available
        ]
        subjects = [row[0] for row in load_catalog().analyses.by_subject() if row[0] not in without]
        applying = (
            f"analyses available for: {' '.join(subjects)} (explain(topic=SUBJECT) lists "
            f"them); not for: {' '.join(without) or '-'}"
        )
        step = (
            "next: advise(trace) suggests changes; ask(trace, 'breakdown') shows the time breakdown"
        )
        return brief(tables, budget=max_tokens, before=[*lines, applying, step], rest=_REST)

    def ask(
        self,
        trace: str,
        analysis: str,
        params: Mapping[str, Any] | None = None,
        skip_rows: int = 0,
        max_tokens: int = USUAL_TOKENS,
    ) -> str:
        """Return the rows of an analysis, a pivot, or the breakdown."""
        params = params or {}
        reads_traces = True
        if analysis in load_catalog().analyses:
            reads_traces = load_catalog().analysis(analysis).scope != "runs"
        with self._opened(trace, traces=reads_traces) as opened:
            if analysis == "breakdown":
                return brief(opened.breakdown(), budget=max_tokens, rest=_REST)
            if analysis == "pivot":
                result = _pivot(opened, params)
                reasons: list[str] = []
            else:
                result = opened.query(analysis, **params)
                reasons = opened.reasons_for_none(analysis) if not result.rows else []
        before = [f"no rows: {printable(reason)}" for reason in reasons]
        return brief(result, before=before, budget=max_tokens, skip=skip_rows, rest=_REST)

    def sql(self, trace: str, statement: str, max_tokens: int = USUAL_TOKENS) -> str:
        import duckdb

        with self._opened(trace) as opened:
            try:
                statements = opened.connection.extract_statements(statement)
            except duckdb.Error:
                statements = []  # the error is reported below
            kinds = [one.type for one in statements]
            if kinds and kinds != [duckdb.StatementType.SELECT]:
                raise QueryError(
                    "only one read-only statement is allowed",
                    hint="SELECT …, FROM …, SHOW TABLES or DESCRIBE TABLE; one at a time",
                )
            _bound_memory()
            result, size = counted(opened.stream_sql(statement))
        return brief(result, size, budget=max_tokens, units=False, rest=_REST_OF_SQL)

    def compare(
        self,
        base: str,
        new: str,
        by: str = "module",
        per: str | None = None,
        max_tokens: int = USUAL_TOKENS,
    ) -> str:
        sides = [allowed(self.folders, one) for one in (base, new)]
        result = tracekit.compare(*sides, per=per, progress=self.progress)  # type: ignore[arg-type]
        tables = result.results(by)  # type: ignore[arg-type]
        # Show the totals first.
        return brief({"comparison": tables["comparison"]} | tables, budget=max_tokens)

    def advise(
        self, trace: str, changes: Sequence[str] | None = None, max_tokens: int = USUAL_TOKENS
    ) -> str:
        """Return suggested changes with their gains, or the gains of given changes."""
        with self._opened(trace) as opened:
            if changes:
                from tracekit.prediction.predicting import Prediction

                predicted = opened.predict(*changes)
                lines = [f"changes: {'; '.join(map(printable, changes))}"]
                if isinstance(predicted, Prediction):
                    lines.append(f"base: {printable(predicted.base_text)}")
                lines += [f"assumes: {printable(one)}" for one in predicted.assumptions]
                if predicted.reason is not None:
                    lines.append(f"no prediction: {printable(predicted.reason)}")
                return brief(predicted.as_result(), before=lines, budget=max_tokens)
            advised = opened.advise()
        undecided = _table(
            "not known",
            ("rule", "what", "reason", "remedy"),
            [(one.rule, one.what, why, one.remedy) for one, why in advised.undecided],
        )
        step = advised.reason or (
            "next: advise(trace, changes=[parts of change, split at '; ']) predicts other changes"
        )
        tables = {"advise": advised.as_result(), "not known": undecided}
        return brief(tables, before=[step], budget=max_tokens)

    def explain(
        self,
        topic: str = "",
        trace: str = "",
        event_id: int | None = None,
        kernel: str | None = None,
        max_tokens: int = USUAL_TOKENS,
    ) -> str:
        """Return a definition, a schema, or the attribution of a device event."""
        if trace:
            if event_id is None and kernel is None:
                raise UsageError(
                    "explain with a trace needs the event_id or kernel of a device event",
                    hint="sql(trace, 'SELECT event_id, name FROM device_events LIMIT 5')",
                )
            selection = {"event_id": event_id} if event_id is not None else {"kernel": kernel}
            return self.ask(trace, "why", selection, max_tokens=max_tokens)
        return _explained(topic, max_tokens)


def _pivot(trace: Trace, params: Mapping[str, Any]) -> Result:
    """Return a pivot. Parameters are untrusted, and the condition has the limits of tool `sql`."""
    unknown = [name for name in params if name not in _OF_PIVOT]
    if unknown:
        raise UsageError(f"pivot has no parameter {unknown[0]!r}", hint=", ".join(_OF_PIVOT))
    rows = params.get("rows", "module")
    names = rows.split(",") if isinstance(rows, str) else rows
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UsageError("rows must be a string of dimensions or a list of them")
    _bound_memory()
    return trace.pivot(**{**params, "rows": [name.strip() for name in names]})


def _explained(topic: str, budget: int) -> str:
    catalog = load_catalog()
    relations: dict[str, tuple[str, Sequence[Any]]] = {
        one.name: (one.row, one.columns) for one in TABLES
    }
    for spec in (*catalog.tables.values(), *catalog.views.values()):
        if not spec.is_private:
            relations[spec.name] = (f"{spec.question} {spec.description}".strip(), spec.columns)
    analyses = catalog.analyses
    if not topic:
        lines = [
            "topic of explain: an analysis, its subject, a table, a column, pivot, or changes",
            f"tables and views: {' '.join(sorted(relations))}",
            "NAME(X|Y): parameter per with the value X or Y gives other rows and columns",
        ]
        return brief(analyses.by_subject(), before=lines, budget=budget)
    if topic == "changes":
        return f"advise(trace, changes=[…]): {_CHANGES}\n"
    if topic == "pivot":
        return (
            "ask(trace, 'pivot', {'rows': 'phase,class', 'columns': 'kind', 'values': 'wall_ns', "
            f"'where': \"class = 'gemm'\", 'step': 3}})\nrows, columns: {' '.join(dimensions())}\n"
            f"values: {' '.join(MEASURES)}; where: SQL over view work\n"
        )
    if topic in analyses:
        return _defined(analyses[topic], budget)
    if topic in relations:
        row, columns = relations[topic]
        return brief(_columns(topic, columns), before=[f"one row: {row}"], budget=budget)
    titles = [
        (one.name, one.scope, one.question) for one in analyses.titles() if one.subject == topic
    ]
    if titles:
        return brief(_table(topic, ("analysis", "scope", "description"), titles), budget=budget)
    everything = {name: columns for name, (_, columns) in relations.items()}
    everything |= {name: spec.columns for name, spec in analyses.items()}
    places = [
        (name, column.meaning)
        for name, columns in everything.items()
        for column in columns
        if column.name == topic
    ]
    if places:
        return brief(_table(f"column {topic}", ("of", "meaning"), places), budget=budget)
    raise QueryError(
        f"no analysis, subject, table, or column named {topic!r}",
        hint=did_you_mean(topic, everything),
    )


def _defined(spec: Spec, budget: int) -> str:
    """Return the definition of an analysis, and its SQL if it fits the budget."""
    lines = [f"{spec.question} {spec.description}".strip(), *spec.notes]
    if per := load_catalog().analyses.families().get(spec.name):
        lines.append(f"parameter per gives other rows and columns: {', '.join(per)}")
    lines += [f"per row: {one}" for one in spec.invariants]
    params = [
        (
            one.name,
            one.type,
            one.default or "required",
            " | ".join(one.choices) or None,
            one.meaning,
        )
        for one in spec.params
    ]
    names = ("name", "type", "default", "choices", "meaning")
    tables = {
        "parameters": _table("parameters", names, params),
        "columns": _columns("columns", spec.columns),
    }
    text = brief(tables, before=lines, budget=budget)
    sql = spec.sql[spec.sql.index("\n\n") :].strip()
    if token_count(text) + token_count(sql) < budget - 10:
        return f"{text}# SQL\n{sql}\n"
    return text


def _columns(name: str, columns: Sequence[Any]) -> Result:
    rows = [(one.name, one.type, one.meaning) for one in columns]
    return _table(name, ("name", "type", "meaning"), rows)


def _table(name: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Result:
    return Result(name, tuple(Column(one, "VARCHAR") for one in columns), [*rows])


def _bound_memory() -> None:
    """Limit the memory of the process beyond DuckDB's own limit, so that large statements fail."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        used_bytes = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        limit = used_bytes * resource.getpagesize() + _STATEMENT_BYTES
        if soft == resource.RLIM_INFINITY or limit < soft:
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
