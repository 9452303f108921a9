"""Header invariants hold on every trace, and analyses agree with each other."""

import gzip
import json
import random
from collections import Counter

import pytest
from every_trace import PATHS, on_every_trace, on_some_traces

import tracekit
from tracekit.analysis.breakdown import HEALTH
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.params import bind
from tracekit.analysis.run import run_analysis, with_values
from tracekit.errors import QueryError
from tracekit.sql_text import select_rows

ALL = {"limit": 0}
MANY = 1_000
"""More rows than these are sooner made again than read as text."""


def broken_invariants(trace, spec, relation):
    """The invariants that do not hold for every row of a relation, with a row that fails."""
    if not spec.invariants:
        return []
    together = " AND ".join(f"({invariant})" for invariant in spec.invariants)
    # Selecting failing rows would double the planning time.
    one = f"SELECT 1 FROM {relation} AS r WHERE ({together}) IS NOT TRUE LIMIT 1"
    if not trace.sql(one).rows:
        return []
    failing = ", ".join(
        f"any_value(r) FILTER (({invariant}) IS DISTINCT FROM TRUE)"
        for invariant in spec.invariants
    )
    (rows,) = trace.sql(f"SELECT {failing} FROM {relation} AS r").rows
    return [
        f"{spec.name}: {invariant}: {row}"
        for invariant, row in zip(spec.invariants, rows, strict=True)
        if row is not None
    ]


def rows_of(answer):
    types = {column.name: column.type for column in answer.columns}
    return f"({select_rows(types, answer.rows)})"


@on_some_traces
def test_invariants_of_analyses(answered, path):
    answers = answered(path)
    trace = answers.trace
    broken = []
    for spec in load_catalog().analyses.values():
        if not spec.invariants or spec.needs or any(param.is_required for param in spec.params):
            continue
        params = ALL if any(param.name == "limit" for param in spec.params) else {}
        try:
            # For a run, rows from its manifest follow, which have the invariants of run_health.
            is_of_more = spec.name == HEALTH
            connection = trace.connection
            answer = (
                run_analysis(connection, spec, {}) if is_of_more else answers(spec.name, **params)
            )
        except QueryError:
            continue  # The trace cannot support it, and it says so.
        # Invariants are per row, so they hold for empty results.
        if len(answer.rows) > MANY:
            broken += broken_invariants(trace, spec, f"({with_values(spec, bind(spec, params))})")
        elif answer.rows:
            broken += broken_invariants(trace, spec, rows_of(answer))
    assert broken == []


@on_some_traces
def test_invariants_of_tables_and_views(opened, path):
    trace = opened(path)
    catalog = load_catalog()
    broken = []
    for spec in (*catalog.tables.values(), *catalog.views.values()):
        broken += broken_invariants(trace, spec, spec.name)
    assert broken == []


def test_tables_and_views_have_the_columns_of_their_headers(opened):
    (path,) = (path for path in PATHS if path.name == "pretrain_R+Z3")
    trace = opened(path)
    catalog = load_catalog()
    for spec in (*catalog.tables.values(), *catalog.views.values()):
        declared = [(column.name, column.type) for column in spec.columns]
        found = trace.sql(f"DESCRIBE {spec.name}").rows
        assert [tuple(row[:2]) for row in found] == declared, spec.name


@on_some_traces
def test_why_agrees_with_the_table(opened, path):
    """Of the device events that took longest."""
    trace = opened(path)
    sql = rows_of(trace.query("why", kernel="", limit=50))
    assert broken_invariants(trace, load_catalog().analysis("why"), sql) == []
    other = trace.sql(
        f"WITH stated AS {sql}, known AS (SELECT rank, event_id, phase, phase_reason,"
        " coalesce(m.path, a.row_name) AS place, module_reason FROM attribution AS a"
        " JOIN trace USING (trace_id) LEFT JOIN module AS m USING (trace_id, module_id))"
        " SELECT * FROM stated AS s WHERE is_decided AND NOT EXISTS (SELECT 1 FROM known AS k WHERE"
        " k.rank IS NOT DISTINCT FROM s.rank AND k.event_id = s.event_id AND (s.answer, s.reason) ="
        " if(s.decides = 'phase', (k.phase, k.phase_reason), (k.place, k.module_reason)))"
    ).rows
    assert other == []


def per_device(rows, column):
    total = Counter()
    for row in rows:
        total[row["rank"], row["device"]] += row[column]
    return total


@on_every_trace
def test_analyses_agree(answered, path):
    ask = answered(path)
    timeline = ask("timeline").to_dicts()
    parts = ("compute_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns")
    for row in timeline:
        assert sum(row[part] for part in parts) == row["window_ns"]
        assert all(row[part] >= 0 for part in parts)

    classes = ask("kernel_classes").to_dicts()
    for row in timeline:
        place = (row["rank"], row["device"])
        here = [kind for kind in classes if (kind["rank"], kind["device"]) == place]
        for kind, column in (("compute", "compute_ns"), ("comm", "exposed_comm_ns")):
            assert sum(r["wall_ns"] for r in here if r["kind"] == kind) == row[column]
        wall_pct = sum(r["wall_pct"] or 0 for r in here)
        assert wall_pct == pytest.approx(100 * row["busy_ns"] / (row["window_ns"] or 1))
    steps = ask("steps").to_dicts()
    if steps:
        assert per_device(steps, "wall_ns") == per_device(timeline, "busy_ns")

    about = ask("trace").to_dicts()
    events = sum(row["device_event_count"] for row in about)
    assert events == sum(row["event_count"] for row in timeline)
    health = Counter()
    for row in ask("health").to_dicts():
        health[row["metric"]] += row["value"] or 0
    assert health["device_events"] == events
    assert health["rejected"] == sum(row["rejected_count"] for row in about)


@on_every_trace
def test_idle_time_is_explained_if_health_reports_it(answered, path):
    ask = answered(path)
    causes = ask("idle_causes").to_dicts()
    health = [row for row in ask("health").to_dicts() if row["metric"] == "idle_explained"]
    for row in health:
        here = [one for one in causes if one["rank"] == row["rank"]]
        unknown_ns = sum(one["idle_ns"] for one in here if one["cause"] == "unknown")
        is_known = unknown_ns <= 0.1 * sum(one["idle_ns"] for one in here)
        assert is_known == (row["severity"] == "ok")


@on_every_trace
def test_every_device_event_has_one_context(opened, path):
    keys = "trace_id, event_id, piece"
    for one, other in (("device_events", "attribution"), ("attribution", "device_events")):
        missing = f"SELECT {keys} FROM {one} EXCEPT ALL SELECT {keys} FROM {other}"
        assert opened(path).sql(missing).rows == []


ASKED = ("timeline", "phases", "modules", "kernel_classes", "kernels", "idle_causes")
SMALL = [path for path in PATHS if path.is_file() and path.stat().st_size < 180_000]


@pytest.mark.nightly("reads all small traces again")
def test_shuffled_traces_have_the_same_figures(answered, tmp_path):
    """The order of events in a file does not matter. All traces share one store, for speed."""

    def counted(rows):
        return Counter(json.dumps(row, sort_keys=True) for row in rows)

    def rows_of_all(ask, name):
        return counted(ask(name, **(ALL if name == "kernels" else {})).to_dicts())

    expected = {name: Counter() for name in ASKED}
    for path in SMALL:
        for name in ASKED:
            expected[name] += rows_of_all(answered(path), name)
        content = json.loads(gzip.decompress(path.read_bytes()))
        random.Random(7).shuffle(content["traceEvents"])
        # The name may say the rank.
        other = tmp_path / path.parent.name / path.name.removesuffix(".gz")
        other.parent.mkdir(exist_ok=True)
        other.write_text(json.dumps(content))
    with tracekit.open(*sorted(tmp_path.rglob("*.json")), cache=False) as shuffled:
        for name in ASKED:
            assert rows_of_all(shuffled.query, name) == expected[name], name
