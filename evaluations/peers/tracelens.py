"""Compares TraceLens' reports on its test traces with tracekit: ops, categories, and costs."""

from __future__ import annotations

import ast
import csv
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from made_parts import table

import tracekit

ARGUMENTS = ("Input Dims", "Input type", "Input Strides")


def reports(clone: Path) -> Iterator[tuple[Path, Path]]:
    """Yield traces of a clone with the folders of their committed reports."""
    folder = clone / "tests" / "traces"
    for report in sorted({path.parent for path in folder.rglob("ops_summary.csv")}):
        traces = sorted(report.parent.glob("*.json.gz"))
        matching = [
            one for one in traces if report.name.startswith(one.name.removesuffix(".json.gz"))
        ]
        result = matching or (traces if report.name == "perf_csvs" else [])
        # Clones without LFS lack large files.
        if len(result) == 1 and result[0].read_bytes()[:2] == b"\x1f\x8b":
            yield result[0], report


def captures_of(path: Path) -> list[Path]:
    """Return the captures that a trace replays, if the clone has them."""
    files = (path.parent / "capture_traces").glob("*.json.gz")
    return [file for file in files if file.read_bytes()[:2] == b"\x1f\x8b"]


def is_of_engine(report: Path) -> bool:
    """Return whether a report includes pseudo-ops, and ops of the capture (another trace)."""
    return report.name == "perf_csvs"


def read(report: Path, name: str) -> list[dict[str, str]]:
    """Return the rows of a table in a report."""
    csv.field_size_limit(10**9)
    with (report / f"{name}.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def title(path: Path) -> str:
    """Return the name of a trace in tables."""
    return f"`{path.parent.name}/{path.name.removesuffix('.json.gz').partition('__')[0]}`"


def listed(text: str) -> str:
    """Return the repr of a tuple as JSON."""
    return json.dumps(ast.literal_eval(text))


def operators(clone: Path) -> str:
    """Return the table of ops, and of ops by their arguments.

    Raises:
        AssertionError: a key or a count differs, or tracekit's time is shorter.
    """
    rows: list[tuple[object, ...]] = []
    for path, report in reports(clone):
        if is_of_engine(report):
            continue
        figures: list[int] = []
        with closing(tracekit.open(path, cache=False)) as trace:
            for inputs in ((), ARGUMENTS):
                ours, theirs = _our_ops(trace, inputs), _their_ops(report, inputs)
                # TraceLens lists collectives only in their own table.
                differing = {key[0] for key in ours.keys() ^ theirs.keys()}
                assert differing <= {"record_param_comms"}, differing
                equal = 0
                for key, (count, *times_us) in theirs.items():
                    assert ours[key][0] == count, key
                    # TraceLens' times are differences of doubles in µs, in some traces since the
                    # epoch.
                    off = [ns - us * 1e3 for ns, us in zip(ours[key][1:], times_us, strict=True)]
                    within = 250 + 6 * count
                    assert off[0] >= -within, key
                    equal += all(abs(ns) <= within for ns in off)
                figures += [len(theirs), equal]
        rows.append((title(path), *figures))
    return table(("trace", "ops", "equal", "by arguments", "equal"), rows)


def _their_ops(report: Path, inputs: tuple[str, ...]) -> dict[tuple[str, ...], list[float]]:
    """Return launching calls and µs of their work, without and with nested calls."""
    result: dict[tuple[str, ...], list[float]] = {}
    file, count = ("ops_unique_args", "operation_count") if inputs else ("ops_summary", "Count")
    for row in read(report, file):
        key = (row["name"], *(listed(row[name]) for name in inputs))
        sums = result.setdefault(key, [0, 0.0, 0.0])
        sums[0] += int(row[count])
        sums[1] += float(row["total_direct_kernel_time_sum"])
        sums[2] += float(row["total_subtree_kernel_time_sum"])
    return result


def _our_ops(trace: tracekit.Trace, inputs: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    columns = ", ".join(("w.name", *(f"e.args ->> '$.\"{name}\"'" for name in inputs)))
    rows = trace.sql(
        "SELECT count(*), sum(w.direct_kernel_ns), sum(w.kernel_ns), "
        f"{columns} FROM op_work AS w INNER JOIN record AS e USING (trace_id, event_id) "
        "WHERE w.direct_kernel_count > 0 GROUP BY ALL"
    ).rows
    return {(row[3], *(json.dumps(json.loads(text)) for text in row[4:])): row[:3] for row in rows}


def captures(clone: Path) -> str:
    """Return the table of ops that graphs replay, from the captures in the clone."""
    rows: list[tuple[object, ...]] = []
    for path, report in reports(clone):
        files = captures_of(path)
        if not files:
            continue
        with closing(tracekit.open(path, capture=files, cache=False)) as trace:
            ((replayed, known),) = trace.sql(
                "SELECT count(*), count(captured_id) FROM attribution AS a "
                "INNER JOIN launch USING (trace_id, launch_id) WHERE contains(name, 'GraphLaunch')"
            ).rows
            ours = _our_ops(trace, ())
        theirs = _their_ops(report, ())
        equal = sum(
            key in ours
            and ours[key][0] == count
            and abs(ours[key][1] - direct_us * 1e3) <= 250 + 6 * count
            for key, (count, direct_us, _) in theirs.items()
        )
        rows.append((title(path), replayed, known, len(theirs), equal))
    return table(("trace", "replayed device events", "with a known op", "ops", "equal"), rows)


def categories(clone: Path) -> str:
    """Return tracekit's kernel classes for the ops of each TraceLens category."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for path, report in reports(clone):
        if is_of_engine(report):
            continue
        theirs = {
            row["name"]: row["Categories"].strip("[]'") for row in read(report, "ops_summary")
        }
        with closing(tracekit.open(path, cache=False)) as trace:
            rows = trace.sql(
                "SELECT op_name, class, sum(dur_ns)::BIGINT FROM attributed_events "
                "WHERE op_name IS NOT NULL GROUP BY ALL"
            ).rows
        for name, kernel_class, dur_ns in rows:
            if name in theirs:
                sums[theirs[name]][kernel_class] += dur_ns
    lines: list[tuple[object, ...]] = []
    for category, classes in sorted(sums.items(), key=lambda one: -one[1].total()):
        shares = [
            f"{name} {100 * ns / classes.total():.1f} %" for name, ns in classes.most_common(6)
        ]
        lines.append((category, f"{classes.total() / 1e6:.3f}", ", ".join(shares)))
    return table(("TraceLens category", "kernels, ms", "tracekit classes of these kernels"), lines)


COSTS = """
WITH op AS (
    SELECT
        e.trace_id, e.event_id AS op_id, e.name, e.args, e.pid, e.tid, e.ts_ns,
        e.ts_ns + e.dur_ns AS end_ns
    FROM record AS e
    SEMI JOIN op_work AS w USING (trace_id, event_id)
),

costed AS (
    SELECT w.name, w.place, w.behind_place, w.direct_kernel_count, c.*
    FROM op_costs('op') AS c
    INNER JOIN op_work AS w ON c.trace_id = w.trace_id AND c.op_id = w.event_id
)

SELECT
    o.name, e.args,
    sum(i.flops) FILTER (i.name <> 'aten::add_' OR o.name = i.name)::BIGINT AS flops,
    sum(i.bytes) FILTER (i.name <> 'aten::add_' OR o.name = i.name)::BIGINT AS bytes,
    any_value(i.reason) AS reason
FROM costed AS o
INNER JOIN record AS e ON o.trace_id = e.trace_id AND o.op_id = e.event_id
INNER JOIN costed AS i
    ON o.trace_id = i.trace_id AND i.place >= o.place AND i.place < o.behind_place
WHERE i.direct_kernel_count > 0
GROUP BY o.op_id, o.name, e.args
"""
"""Costs of each op including nested ops, but without convolution biases."""


def costs(clone: Path) -> str:
    """Return the number of equal costs by TraceLens category and op."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for path, report in reports(clone):
        capture = captures_of(path)
        with closing(tracekit.open(path, capture=capture, cache=False)) as trace:
            trace.query("ops", limit=1)
            ours = {}
            for name, args, *cost in trace.sql(COSTS).rows:
                given = json.loads(args)
                ours[name, *(json.dumps(given.get(one)) for one in _GIVEN)] = cost
        for row in read(report, "unified_perf_summary"):
            if not row["GFLOPS"] or row["name"].startswith("triton_"):
                continue
            key = row["name"], *(listed(row[one]) for one in _GIVEN)
            count = counts[row["op category"], row["name"]]
            count["rows"] += 1
            if key not in ours:
                count["elsewhere"] += 1
                continue
            flops, size, reason = ours[key]
            if reason is not None:
                count["unknown"] += 1
                continue
            count["flops"] += math.isclose(flops, float(row["GFLOPS"]) * 1e9, rel_tol=1e-6)
            if row["Data Moved (MB)"]:
                their_bytes = float(row["Data Moved (MB)"]) * 2**20
                count["bytes"] += math.isclose(size, their_bytes, rel_tol=1e-6)
    lines: list[tuple[object, ...]] = []
    for (category, name), count in sorted(counts.items()):
        figures = (count[one] for one in ("rows", "elsewhere", "unknown", "flops", "bytes"))
        lines.append((category, f"`{name}`", *figures))
    heads = (
        "category",
        "op",
        "rows",
        "of a capture",
        "unknown in tracekit",
        "FLOPs equal",
        "bytes equal",
    )
    return table(heads, lines)


_GIVEN = (*ARGUMENTS, "Concrete Inputs")
