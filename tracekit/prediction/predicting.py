"""Replays a recorded run with changes and returns the result with an interval."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.passes.graph_sweeps import REPLAY, create_swept, read_group_times
from tracekit.analysis.relations import ensure, ensure_named
from tracekit.analysis.result import Column, Result, ShownAsTable
from tracekit.analysis.run import run_analysis
from tracekit.database.connections import SESSION
from tracekit.errors import QueryError, UsageError
from tracekit.prediction.changes import LAST, SCALE, SERVING, Change, parse_change
from tracekit.prediction.edges import EDGES, MOMENTS, VARIANTS, Ask, Edges, every_weight, left_ns
from tracekit.prediction.methods import APPLY, expand
from tracekit.prediction.timeline import write_timeline
from tracekit.sql_text import select_rows

if TYPE_CHECKING:
    import duckdb

    from tracekit.prediction.serving import ServingPrediction

_READ = (
    "FROM graph_edge, graph_weight, graph_end, graph_span, graph_clock, edge_fact, step_bound, "
    "recorded_step, step_ranges, graph_breaks, host_pauses, attributed_events, compile_chain, "
    "launch, run, run_repeat "
    "WHERE is_op() is_annotation() is_python_call() is_launch_call() interval_overlap() "
    "interval_union()"
)

_AT = f"{SESSION}.main.changed_at"

MARGIN, MARGIN_OF_CHANGE = 0.01, 0.05
"""Margins added to both ends of an interval: shares of the window and of the change.

A predicted change is rarely exact to the percent; see docs/explanation/predictions.md.
"""

DEVICE_ERRORS = ("kind=compute x0.8", "kind=compute x1.25")
"""Range of kernel durations on another device, relative to the predicted durations; see
docs/explanation/predictions.md."""

_DRAWS = 300

KEEPS_WORK = frozenset({"host", "python", "launches", "graph"})
"""Keywords of changes that leave GPU work unchanged, so that GPU work limits the gain."""

_OF_HOST = KEEPS_WORK | {"sync", "compile"}
"""Keywords of changes to host time, which the profiler inflates."""

MEASURED, ESTIMATE, RECORDING = "measured", "estimate", "recording"
"""Base of a prediction: unprofiled run (measured or estimated), or recording."""

_STEPS_OF_LOOP = 10
"""Number of steps over which step time is averaged, as in table replayed_step. Shorter loops are
extrapolated."""

_TIMES = ("before", "predicted", "low", "high")


class Prediction(ShownAsTable, Struct, frozen=True):
    """Step time and device window of a run under changes.

    `recorded_ns` and `before_ns` are the window from the first device event of all ranks to the end
    of the last, as recorded and (if known) of the unprofiled run. Intervals range from `low_*` to
    `high_*`. `replay_error_pct` is the error of the unchanged replay, and `inferred_pct` the share
    of the critical path on inferred or assumed edges. `reason` explains a missing prediction.
    `step_count` is 0 if the window counts as one step. `is_upper_bound` is true if the profiler
    slows the host by an unknown amount.
    """

    changes: tuple[str, ...]
    recorded_ns: int
    before_ns: int
    predicted_ns: int | None
    low_ns: int
    high_ns: int
    replay_error_pct: float
    inferred_pct: float
    assumptions: tuple[str, ...]
    reason: str | None = None
    step_count: int = 0
    before_step_ns: int | None = None
    predicted_step_ns: int | None = None
    low_step_ns: int | None = None
    high_step_ns: int | None = None
    base: str | None = None
    base_reason: str | None = None
    is_upper_bound: bool = False

    def as_dict(self) -> dict[str, object]:
        members = asdict(self)
        return {"change": "; ".join(members.pop("changes"))} | members

    def as_result(self) -> Result:
        columns = (
            *(Column(f"{name}_step_ns", "BIGINT") for name in _TIMES),
            *(Column(f"{name}_pct", "DOUBLE") for name in ("gain", "low", "high")),
            *(Column(f"{name}_pct", "DOUBLE") for name in ("replay_error", "inferred")),
        )
        row = (
            *(getattr(self, f"{name}_step_ns") for name in _TIMES),
            *(self.gain_pct, *self.range_pct, self.replay_error_pct, self.inferred_pct),
        )
        return Result("predict", columns, [row])

    @property
    def gain_pct(self) -> float | None:
        """Gain as a percentage of the step; negative if the step gets longer."""
        return None if self.predicted_ns is None else self._gain_pct("predicted")

    @property
    def range_pct(self) -> tuple[float, float]:
        return self._gain_pct("high"), self._gain_pct("low")

    @property
    def gain_ns(self) -> int:
        if self.before_step_ns is None or self.predicted_step_ns is None:
            return self.before_ns - (self.predicted_ns or 0)
        return self.before_step_ns - self.predicted_step_ns

    @property
    def base_text(self) -> str:
        """The base of the prediction, and why it is not the unprofiled run."""
        if self.base != RECORDING:
            return f"the unprofiled run ({self.base})"
        bound = "; the unprofiled run gains less" if self.is_upper_bound else ""
        return RECORDING + (f" ({self.base_reason})" if self.base_reason else "") + bound

    def widened(self, other: Prediction) -> Prediction:
        return replace(
            self,
            low_ns=min(self.low_ns, other.low_ns),
            high_ns=max(self.high_ns, other.high_ns),
            low_step_ns=min(self.low_step_ns or 0, other.low_step_ns or 0),
            high_step_ns=max(self.high_step_ns or 0, other.high_step_ns or 0),
        )

    def _gain_pct(self, name: str) -> float:
        after: int | None = getattr(self, f"{name}_step_ns")
        before = self.before_step_ns
        if after is None or before is None:  # a figure of a load
            after, before = int(getattr(self, f"{name}_ns")), self.before_ns
        return 100 * (1 - after / max(before, 1))


class RunStep(Struct, frozen=True):
    """The mean step of a run with and without the profiler, ns; `busy_ns` is None on CPUs.

    For a wide interval, `run_ns` is its middle. `basis` is ``measured`` or ``constants`` (from the
    costs of profiler events). `reason` is why the unprofiled run cannot be replayed.
    """

    recorded_ns: int
    run_ns: int | None
    low_ns: int | None
    high_ns: int | None
    busy_ns: int | None
    basis: str
    reason: str | None

    @property
    def ratio(self) -> float | None:
        return self.recorded_ns / max(self.run_ns, 1) if self.run_ns is not None else None


_RUN_STEP = """
SELECT
    round(avg(recorded_ns))::BIGINT AS recorded_ns,
    round(avg(coalesce(unprofiled_ns, measured_ns, (low_ns + high_ns) // 2)))::BIGINT AS run_ns,
    round(avg(low_ns))::BIGINT AS low_ns,
    round(avg(high_ns))::BIGINT AS high_ns,
    round(avg(work_ns))::BIGINT AS busy_ns,
    any_value(basis) AS basis,
    any_value(reason) FILTER (NOT is_replayed) AS reason
FROM run_basis
HAVING count(*) > 0
"""


_MIN_WORK = 10
"""Minimum number of overlapping kernels and of separate kernels to fit a slope."""

_MIN_COMPARED_PCT = 50.0
"""Slopes affect the prediction, and not only its interval, if they cover this share of overlap
time."""

_ROUNDS = 2
"""Number of iterations. One is not enough, because slower kernels overlap with more work. A third
one changes less than 0.1 %."""

# The replayed duration of work, between its two nodes, includes waits for other ranks.
_BESIDE = f"""
WITH work AS (
    SELECT e.edge_id AS id, (e.trace_id, e.device) AS part, e.work_kind,
        begun.at_ns AS start_ns, ended.at_ns AS end_ns
    FROM changed_edge AS e
    INNER JOIN {_AT} AS begun ON e.source_node = begun.node
    INNER JOIN {_AT} AS ended ON e.target_node = ended.node
    WHERE e.kind = 'work' AND e.device <> 'cpu'
),
compute AS (FROM work WHERE work_kind = 'compute'),
comm AS (FROM work WHERE work_kind = 'comm'),
shared AS (FROM interval_shared('compute'))
SELECT id AS edge_id, m.overlap_ns AS comm_ns, s.overlap_ns AS compute_ns
FROM interval_overlap('compute', 'comm') AS m
INNER JOIN interval_overlap('compute', 'shared') AS s USING (id)
"""


class Contention:
    """Slowdown of a run's kernels that overlap with other work on the same device.

    `summary` describes the slopes; None if the trace shows no contention. `is_sure` means that they
    affect the prediction, not only its interval.
    """

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self.summary: str | None = None
        self.is_sure = False
        if not edges.run(
            "SELECT 1 FROM changed_edge WHERE kind = 'work' AND device <> 'cpu' "
            "GROUP BY trace_id, device HAVING count(DISTINCT stream) > 1 LIMIT 1"
        ):
            return
        contention = load_catalog().analysis("contention")
        rows = [
            row
            for row in run_analysis(edges.connection, contention, {}).to_dicts()
            if min(row["kernel_count"], row["alone_count"]) >= _MIN_WORK and row["slope_pct"] > 0
        ]
        if not rows:
            return
        types = {"rank": "INTEGER", "device": "VARCHAR", "concurrent": "VARCHAR", "slope": "DOUBLE"}
        slopes = [
            (row["rank"], row["device"], row["concurrent_work"], min(row["slope_pct"] / 100, 1.0))
            for row in rows
        ]
        edges.create(
            "changed_slope",
            "SELECT t.trace_id, s.device, "
            "coalesce(any_value(slope) FILTER (concurrent = 'comm'), 0) AS comm, "
            "coalesce(any_value(slope) FILTER (concurrent = 'compute'), 0) AS compute "
            f"FROM ({select_rows(types, slopes)}) AS s "
            "INNER JOIN trace AS t ON t.rank IS NOT DISTINCT FROM s.rank GROUP BY ALL",
        )
        ensure_named(edges.connection, "interval_overlap() interval_shared()")
        self._measure("changed_concurrent_before")
        parts, least_pct = [], 100.0
        for concurrent, what in (("comm", "communication"), ("compute", "another kernel")):
            if result := [row for row in rows if row["concurrent_work"] == concurrent]:
                extra_ns, overlap_ns, count = (
                    sum(row[name] for row in result)
                    for name in ("extra_ns", "overlap_ns", "kernel_count")
                )
                all_ns = sum(100 * row["overlap_ns"] / row["compared_pct"] for row in result)
                least_pct = min(least_pct, 100 * overlap_ns / all_ns)
                parts.append(
                    f"{100 * extra_ns / overlap_ns:.1f} % of the time that {what} overlaps them "
                    f"(from {count} kernels, {100 * overlap_ns / all_ns:.1f} % of that time)"
                )
        self.is_sure = least_pct >= _MIN_COMPARED_PCT
        where = "" if self.is_sure else " (only in the interval)"
        self.summary = f"kernels slow down by {', and by '.join(parts)}{where}"

    def change(self) -> None:
        remaining = f"{left_ns('usual')} / greatest(e.usual_ns, 1)"
        for _ in range(_ROUNDS):
            self._measure("changed_concurrent")
            self._edges.update(
                "contended_ns = round("
                f"s.comm * (a.comm_ns - coalesce(b.comm_ns, 0) * {remaining}) "
                f"+ s.compute * (a.compute_ns - coalesce(b.compute_ns, 0) * {remaining}))::BIGINT",
                "e.edge_id = a.edge_id AND (e.trace_id, e.device) = (s.trace_id, s.device)",
                "changed_concurrent AS a LEFT JOIN changed_concurrent_before AS b USING (edge_id), "
                "changed_slope AS s",
            )

    def _measure(self, name: str) -> None:
        create_swept(self._edges.connection, _AT, REPLAY, EDGES)
        self._edges.create(name, _BESIDE)


class _Replayed(Struct, frozen=True):
    window_ns: int
    # End of the last GPU work of each marked step, by trace.
    step_ends_ns: tuple[tuple[int, ...], ...]
    # Start of the first step with GPU work, and the number of steps up to the last, by trace.
    begins: tuple[tuple[int, int] | None, ...]

    @property
    def step_ns(self) -> float:
        """Step time as in table replayed_step, averaged over traces; without steps, the window."""
        traces = zip(self.begins, self.step_ends_ns, strict=True)
        steps = [_step_ns(*begin, ends) for begin, ends in traces if begin is not None]
        return fmean(steps) if steps else self.window_ns


def _step_ns(begin_ns: int, count: int, ends_ns: Sequence[int]) -> float:
    all_ns = max(ends_ns) - begin_ns
    if not 1 < count < _STEPS_OF_LOOP:
        return all_ns / count
    apart_ns = (max(ends_ns) - ends_ns[0]) / (count - 1)
    return (all_ns + (_STEPS_OF_LOOP - count) * apart_ns) / _STEPS_OF_LOOP


class Predictor:
    """Replays one recorded run with changes, any number of times.

    `further` has query functions for runs with another size or from `tracekit bench`. `is_of_run`
    means that the unprofiled run is replayed, not the recording.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        further: Sequence[Ask] = (),
        *,
        is_recorded: bool = False,
    ) -> None:
        self._connection = connection
        if connection.execute("SELECT count(*) FROM trace").fetchone() == (0,):
            raise QueryError(
                "the run has no trace to replay",
                hint="only changes of a load, such as 'rate x2', need no trace",
            )
        rows = run_analysis(connection, load_catalog().analysis("replay"), {}).to_dicts()
        if not rows:
            raise QueryError("the trace has no GPU work to replay")
        self._inferred_pct = max(row["inferred_pct"] or 0.0 for row in rows)
        self._unexplained_ns = max(row["unexplained_ns"] for row in rows)
        self._replay_error_pct = max((row["error_pct"] or 0.0 for row in rows), key=abs)
        [(self.recorded_ns,)] = connection.execute(
            "SELECT max(end_ns) - min(start_ns) FROM graph_end"
        ).fetchall()
        ensure_named(connection, _READ)
        self.run_step = None if is_recorded else _run_step(connection)
        self.is_of_run = self.run_step is not None and self.run_step.reason is None
        weights = "run_weight" if self.is_of_run else "graph_weight"
        self._create_edges = partial(Edges, connection, weights, further)
        self._edges = self._create_edges()
        self._moments = self._edges.run(
            "SELECT trace_id, list(DISTINCT instant ORDER BY instant) FROM changed_edge "
            "WHERE instant > 0 AND instant_step IS NOT NULL GROUP BY trace_id ORDER BY trace_id"
        )
        begins = self._edges.run(
            "SELECT e.trace_id, e.instant, any_value(r.spanned_count), bool_or(n.kind = 'work') "
            "FROM changed_edge AS e "
            "INNER JOIN step_bound AS s ON e.target_node = s.node AND s.bound = 0 "
            "INNER JOIN recorded_step AS r ON e.trace_id = r.trace_id "
            "LEFT JOIN graph_span AS n ON e.target_node = 2 * n.span_id "
            "WHERE e.instant > 0 GROUP BY e.trace_id, e.instant"
        )
        self._begins = {trace_id: (instant, count) for trace_id, instant, count, _ in begins}
        # A step may start with the first work. Its node then has the instant of the step.
        self._first_work = [0, *(instant for _, instant, _, is_work in begins if is_work)]
        self._known: dict[tuple[Change, ...], tuple[list[str], list[_Replayed]]] = {}
        self._before = self._replayed()
        self.before_ns = self._before[0].window_ns

    @property
    def step_count(self) -> int:
        return max((len(ends) for ends in self._before[0].step_ends_ns), default=0)

    @cached_property
    def has_device(self) -> bool:
        return self._edges.count("part = 'work' AND device <> 'cpu'") > 0

    def predict(self, changes: Sequence[str], timeline: Path | None = None) -> Prediction:
        """Predict the step and the window with all of these changes.

        `timeline` is the output path for the predicted run as a Chrome trace; in a folder, one file
        per rank.
        """
        usual, most, reasons = self._expanded(changes)
        result = self._predicted(usual, timeline)
        result = replace(
            result, changes=tuple(changes), assumptions=(*reasons, *result.assumptions)
        )
        is_moved = any(change.keyword == "device" for change in usual)
        if is_moved and result.predicted_ns != result.before_ns:
            for text in DEVICE_ERRORS:
                end = self._predicted([*usual, parse_change(text)])
                result = result.widened(end)
        if result.reason is None and most != usual:
            least = self._predicted(most)
            result = replace(
                result.widened(least), high_ns=result.high_ns, high_step_ns=result.high_step_ns
            )
        return self._bounded(result, usual)

    def _bounded(self, result: Prediction, changes: Sequence[Change]) -> Prediction:
        """Clamp a prediction to its interval, with its GPU work as lower bound."""
        least_ns, step = 0, self.run_step
        keywords = {change.keyword for change in changes}
        if step is not None and step.busy_ns is not None and keywords <= KEEPS_WORK:
            least_ns = min(step.busy_ns, result.before_step_ns or 0)
        after_ns = max(result.predicted_step_ns or 0, least_ns)
        is_slowed = any(
            change.keyword in _OF_HOST
            or (change.action == SCALE and any(column == "range" for column, _ in change.terms))
            for change in changes
        )
        return replace(
            result,
            predicted_step_ns=after_ns,
            low_step_ns=min(max(result.low_step_ns or 0, least_ns), after_ns),
            high_step_ns=max(result.high_step_ns or 0, after_ns),
            is_upper_bound=is_slowed and result.base_reason is not None and self.has_device,
        )

    def _predicted(self, changes: Sequence[Change], timeline: Path | None = None) -> Prediction:
        assumed, after = self._changed(changes)
        assumptions = [*assumed]
        if timeline is not None:
            self._write(changes, timeline)
        before = self._before
        gain_ns = self.before_ns - after[0].window_ns
        pairs = list(zip_longest(before, after, fillvalue=before[0]))
        ratios = [new.window_ns / max(old.window_ns, 1) for old, new in pairs]
        step_ratios = [new.step_ns / max(old.step_ns, 1) for old, new in pairs]
        drawn = _drawn(before[0], after[0])
        low, high = _widened(ratios, drawn)
        step_low, step_high = _widened(step_ratios, drawn)
        step_ns = self._base_step_ns
        if self._contention.summary is not None:
            assumptions.append(self._contention.summary)
        if self._inferred_pct >= 0.05:
            assumptions.append("inferred dependencies between events are correct")
        reason = None
        unexplained_ns = self._unexplained_ns * self.before_ns / max(self.recorded_ns, 1)
        if unexplained_ns > abs(gain_ns) and gain_ns > 0:
            reason = (
                f"{unexplained_ns / 1e6:.3f} ms of the critical path are unexplained, "
                f"more than the predicted gain of {gain_ns / 1e6:.3f} ms"
            )
        return Prediction(
            tuple(change.text for change in changes),
            self.recorded_ns,
            self.before_ns,
            after[0].window_ns if reason is None else None,
            round(low * self.before_ns),
            round(high * self.before_ns),
            self._replay_error_pct,
            self._inferred_pct,
            tuple(assumptions),
            reason,
            step_count=self.step_count,
            before_step_ns=round(step_ns),
            predicted_step_ns=round(step_ratios[0] * step_ns),
            low_step_ns=round(step_low * step_ns),
            high_step_ns=round(step_high * step_ns),
            base=self.base,
            base_reason=None if self.is_of_run or self.run_step is None else self.run_step.reason,
        )

    @property
    def base(self) -> str:
        if not self.is_of_run or self.run_step is None:
            return RECORDING
        return MEASURED if self.run_step.basis == MEASURED else ESTIMATE

    @cached_property
    def _base_step_ns(self) -> float:
        step = self.run_step
        if step is None:
            rows = self._connection.execute("SELECT avg(recorded_ns) FROM recorded_step").fetchall()
            return float(rows[0][0] or self._before[0].step_ns)
        return step.run_ns if self.is_of_run and step.run_ns is not None else step.recorded_ns

    def _expanded(self, changes: Sequence[str]) -> tuple[list[Change], list[Change], list[str]]:
        """Return the parts of changes, the variants with the largest gain, and the assumptions."""
        parsed = sorted(map(parse_change, changes), key=lambda one: one.keyword in LAST)
        results = [expand(self._edges, change) for change in parsed]
        usual, most, reasons = (
            [one for part in parts for one in part] for parts in zip(*results, strict=True)
        )
        return usual, most, reasons

    def _changed(self, changes: Sequence[Change]) -> tuple[list[str], list[_Replayed]]:
        """Replay the edges under changes; return the assumptions and the result of each variant.

        If the trace shows contention, the last result is the first variant under the opposite
        assumption about contention.
        """
        if (*changes,) in self._known:
            return self._known[*changes,]
        with self._applied(changes, is_seen=self._contention.summary is not None) as assumed:
            replayed = self._replayed()
            if self._contention.summary is not None:
                self._contention.change()
                contended = self._replayed()
                if self._contention.is_sure:
                    replayed, contended = contended, replayed
                replayed.append(contended[0])
        assumptions = list(dict.fromkeys(text for texts in assumed for text in texts))
        self._known[*changes,] = assumptions, replayed
        return assumptions, replayed

    @cached_property
    def _contention(self) -> Contention:
        return Contention(self._edges)

    @contextmanager
    def _applied(self, changes: Sequence[Change], *, is_seen: bool) -> Iterator[list[list[str]]]:
        """Apply changes to the edges, yield their assumptions, and undo the changes at the end.

        With `is_seen`, other connections can see the changes. Otherwise, a transaction is rolled
        back, which is faster than rebuilding the edges.
        """
        if not is_seen:
            self._connection.execute("BEGIN")
        try:
            assumed = [APPLY[change.keyword](self._edges, change) for change in changes]
            yield [*assumed, self._start_as_steps_end()]
        finally:
            if is_seen:
                self._create_edges()
            else:
                self._connection.execute("ROLLBACK")

    def _start_as_steps_end(self) -> list[str]:
        """Adjust the start of ranks that start about as late as their steps end.

        A step before the window, which would change as well, caused the delay. So the new start
        delay is the predicted delay of the step ends. Delays that grow from step to step, and those
        below a thousandth of the window, are ignored.
        """
        results: list[str] = []
        if len(self._moments) < 2:
            return results
        starts = "SELECT trace_id, min(usual_ns) FROM changed_edge WHERE kind = 'start' GROUP BY 1"
        ns = dict(self._edges.run(starts))
        was, now = (_lateness(run.step_ends_ns) for run in (self._before[0], self._replayed()[0]))
        for (trace_id, _), old, new in zip(self._moments, was, now, strict=False):
            begun_ns, old_ns = ns.get(trace_id, 0), round(median(old))
            change_ns = round(median(new)) - old_ns
            more_ns = max(change_ns, -begun_ns)
            growth_ns = new[-1] - new[0] - (old[-1] - old[0])
            is_alike = 2 * max(abs(begun_ns - old_ns), abs(growth_ns)) <= abs(change_ns)
            if is_alike and 1000 * abs(more_ns) >= self._before[0].window_ns:
                self._edges.update(
                    every_weight(f"*_ns = *_ns + {more_ns}"),
                    f"trace_id = {trace_id} AND source_node = 0 "
                    "AND kind IN ('start', 'backlog', 'no_launch')",
                )
                results.append(
                    "a rank that starts late at the end of its steps also does so after the change"
                )
        return results

    def _write(self, changes: Sequence[Change], timeline: Path) -> None:
        with self._applied(changes, is_seen=True):
            if self._contention.is_sure:
                self._contention.change()
            create_swept(self._connection, _AT, REPLAY, EDGES)
            write_timeline(self._connection, _AT, timeline)

    def _replayed(self) -> list[_Replayed]:
        times = read_group_times(self._connection, MOMENTS)
        return [
            _Replayed(
                max(end[i] for end in times[1:] if end[i] is not None)
                - min(times[at][i] for at in self._first_work if times[at][i] is not None),
                tuple(tuple(times[step][i] for step in steps) for _, steps in self._moments),
                tuple(
                    (times[begin[0]][i], begin[1]) if begin is not None else None
                    for begin in (self._begins.get(trace_id) for trace_id, _ in self._moments)
                ),
            )
            for i in range(1, 1 + len(VARIANTS))
        ]


def _run_step(connection: duckdb.DuckDBPyConnection) -> RunStep | None:
    ensure(connection, ["run_weight"])
    row = connection.execute(_RUN_STEP).fetchone()
    return None if row is None else RunStep(*row)


def predict(
    connection: duckdb.DuckDBPyConnection,
    predictor: Callable[[], Predictor],
    changes: Sequence[str],
    timeline: Path | None = None,
) -> Prediction | ServingPrediction:
    """Predict the step of a run, or the load of a serving run, under changes.

    Raises a UsageError if a text is not a change, or if changes of a load are mixed with others.
    """
    if not changes:
        raise UsageError("no change to predict", hint="tracekit predict TRACE lists examples")
    parsed = [parse_change(text) for text in changes]
    if not any(change.keyword in SERVING for change in parsed):
        return predictor().predict(changes, timeline)
    from tracekit.prediction.serving import LoadPredictor

    if timeline is not None or not all(change.keyword in SERVING for change in parsed):
        raise UsageError(
            "changes of a load or its engine cannot be combined with others, and have no timeline",
            hint=f"changes of a load or its engine: {', '.join(sorted(SERVING))}",
        )
    return LoadPredictor(connection).predict(parsed)


def _lateness(step_ends_ns: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return each rank's delay in each step after the first rank that ends it."""
    if len({len(ends) for ends in step_ends_ns}) > 1:
        return []
    first = [min(step) for step in zip(*step_ends_ns, strict=True)]
    return [[end - least for end, least in zip(ends, first, strict=True)] for ends in step_ends_ns]


def _drawn(before: _Replayed, after: _Replayed) -> list[float]:
    """Return the 95 % bootstrap interval of the ratio of step times; empty for one or two steps."""
    old, new = (
        [ends[i + 1] - ends[i] for ends in run.step_ends_ns for i in range(len(ends) - 1)]
        for run in (before, after)
    )
    if len(old) < 3:
        return []
    chance = random.Random(0)
    ratios = sorted(
        sum(chance.choices(new, k=len(new))) / max(sum(chance.choices(old, k=len(old))), 1)
        for _ in range(_DRAWS)
    )
    return [ratios[round(0.025 * _DRAWS)], ratios[round(0.975 * _DRAWS) - 1]]


def _widened(ratios: Sequence[float], drawn: Sequence[float]) -> tuple[float, float]:
    every = [*ratios, *drawn]
    margin = MARGIN + MARGIN_OF_CHANGE * abs(1 - ratios[0])
    return max(min(every) - margin, 0.0), max(every) + margin
