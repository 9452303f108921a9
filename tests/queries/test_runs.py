"""Run folders: invariants hold for any content, and invalid lines are rejected."""

import json

from every_trace import REPO

import tracekit
from tracekit.analysis.breakdown import BENCH_BREAKDOWN
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.params import bind
from tracekit.analysis.run import with_values
from tracekit.ingest import json_lines

MS = 1_000_000
SAMPLE = REPO / "sample_traces" / "serve_transformers"
ANALYSES = [spec for spec in load_catalog().analyses.values() if spec.scope == "runs"]
PARTS = ("queued", "prefill", "decode", "between steps", "not traced", "answering")


def line(number, family, op, median_ns=1000.0, **members):
    """A point whose interval is a fifth below and a quarter above its median."""
    times = {"outcome": "ok"}
    if median_ns is not None:
        times |= {"median_ns": median_ns, "low_ns": 0.8 * median_ns, "high_ns": 1.25 * median_ns}
        times |= {"confidence_pct": 95, "repeat_count": 10, "sample_ns": [median_ns]}
    return {"bench_id": number, "family": family, "op": op, **times, **members}


def broken(trace, spec):
    """Return the invariants of an analysis that do not hold."""
    relation = with_values(spec, bind(spec, {}))
    failing = "SELECT * FROM ({}) WHERE ({}) IS DISTINCT FROM TRUE"
    return [one for one in spec.invariants if trace.sql(failing.format(relation, one)).rows]


def test_invariants_of_benchmarks_hold_for_all_lines(make_run):
    biggest = 2**31 - 1
    families = {"gemm": "mm", "memcpy": "d2d", "collective": "all_reduce", "launch": "op_call"}
    lines = []
    for family, op in families.items():
        for median_ns in (None, 0.0, 1e-9, 1.0, 2.0**60):
            for members in (
                {},
                {"m": biggest, "n": biggest, "k": biggest, "batch": biggest},
                {"m": 1, "n": 1, "k": 1, "message_bytes": 0, "group_size": 2},
                {"m": 1, "n": 1, "k": 1, "message_bytes": 2**53, "group_size": biggest},
                {"outcome": "odd", "reason": "x"},
            ):
                lines.append(line(len(lines), family, op, median_ns, **members))
    folder = make_run("bench", benchmarks=lines, stage="bench", engine="torch")
    with tracekit.open(folder, cache=False) as trace:
        assert list(trace.breakdown()) == ["run", *BENCH_BREAKDOWN, "health"]
        for name in BENCH_BREAKDOWN:
            assert len(trace.query(name)) == 25
            assert broken(trace, load_catalog().analyses[name]) == []


def test_lines_that_are_no_points_are_set_aside(make_run):
    lines = [
        line(0, "gemm", "mm"),
        line(0, "gemm", "mm"),
        "{",
        json.dumps(line(1, "poetry", "ode")),
        json.dumps(line(2, "gemm", "mm", m=2**31)),
        json.dumps(line(3, "gemm", "mm", median_ns=-1.0)),
        json.dumps(line(4, "gemm", "mm", temper="good")),
    ]
    folder = make_run("bench", benchmarks=lines, stage="bench", engine="torch")
    with tracekit.open(folder, cache=False) as trace:
        found = trace.sql("SELECT bench_id, extra ->> 'temper' FROM benchmark").rows
        (counts,) = trace.sql("SELECT benchmark_count, request_count, rejected_count FROM run").rows
        rejected = len(trace.sql("SELECT reason FROM rejected").rows)
        health = {row["metric"]: row for row in trace.health().to_dicts()}
    assert found == [(0, None), (4, "good")]
    assert counts == (2, 0, 5)
    assert rejected == health["rejected_benchmark_lines"]["value"] == 5
    assert "rejected_request_lines" not in health


def test_a_partially_readable_request_file_is_not_loaded(make_run, monkeypatch):
    """Each line is a separate part, so two are in the store when the third exceeds the limit."""
    monkeypatch.setattr(json_lines, "MAX_LINES", 2)
    monkeypatch.setattr(json_lines, "PART_BYTES", 1)
    load = [{"request_id": number, "outcome": "ok", "steps": [[0, 2]]} for number in range(3)]
    with tracekit.open(make_run("serve", load, stage="serve"), cache=False) as trace:
        held = trace.sql(
            "SELECT (SELECT count(*) FROM request), (SELECT count(*) FROM request_step), "
            "(SELECT request_count FROM run), (SELECT notes IS NOT NULL FROM run)"
        )
    assert held.rows == [(0, 0, 0, True)]


def test_invariants_of_runs_of_every_kind(make_run, tmp_path):
    """Successful and failed training, serving with and without answers, and no manifest."""
    memory = [{"rank": 0, "device_allocated_bytes": 4, "device_reserved_bytes": 5}]
    for count in (1, 2):
        make_run(
            f"train{count}",
            tokens_per_s_mean=1000 * count,
            tokens_per_s_std=10,
            peak_memory=memory,
            parallel={"world_size": count},
            repeats=[{"tokens_per_s": 1, "wall_ns": 5, "step_ns": [2, 3]}],
            overhead={"profiled_step_ns": 4},
        )
    make_run("oom", outcome="oom", reason="CUDA out of memory", parallel={"world_size": 4})
    make_run("failed", outcome="failed")
    answers = [
        {"request_id": n, "outcome": "ok" if n % 3 else "timeout", "sent_ns": n, "arrival_ns": 0}
        | {"token_ns": [20 + n, 30 + 2 * n, 50 + n * n], "output_token_count": 3}
        | {"end_ns": 50 + n * n, "prompt_token_count": 4}
        for n in range(50)
    ]
    load = {"request_count": 60, "prompt_token_count": 4, "max_new_token_count": 3}
    make_run("serve", answers, stage="serve", engine="vllm", load=load)
    make_run("down", [{"request_id": 0, "outcome": "refused"}, "x"], stage="serve", engine="tgi")
    make_run("empty", [], stage="serve", engine="tgi")
    sizes = {"device": "cpu", "m": 2, "n": 3, "k": 4, "message_bytes": 8, "group_size": 2}
    ops = [("gemm", "mm"), ("memcpy", "h2h"), ("collective", "reduce"), ("launch", "op_call")]
    points = [line(n, family, op, 5.0, **sizes) for n, (family, op) in enumerate(ops)]
    make_run("bench", benchmarks=points, stage="bench", engine="torch")
    make_run("broken", stage=None)
    with tracekit.open(tmp_path, traces=False, cache=False) as trace:
        for spec in ANALYSES:
            rows = trace.query(spec.name)
            # No advice if nothing is wrong.
            assert len(rows) > 0 or spec.subject == "advice", spec.name
            assert trace.query(spec.name) == rows, spec.name
            assert broken(trace, spec) == [], spec.name


def request(number, outcome="ok", **members):
    times = {name: members.pop(name) * MS for name in ("sent_ns", "end_ns") if name in members}
    return {"request_id": number, "outcome": outcome, "prompt_token_count": 4, **times, **members}


def test_percentiles_are_those_of_the_nearest_rank(make_run):
    """Of 1 to 200 ms: the 100th, the 180th and the 198th."""
    load = [request(n, sent_ns=0, end_ns=n, token_ns=[]) for n in range(200, 0, -1)]
    folder = make_run("many", load, stage="serve", engine="vllm")
    with tracekit.open(folder, traces=False, cache=False) as trace:
        found = {row["metric"]: row for row in trace.query("latency").to_dicts()}
        curve = trace.query("latency_cdf").to_dicts()
        every = trace.query("latency_cdf", points=0)
    names = ("mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")
    assert [found["e2e"][name] / MS for name in names] == [100.5, 100, 180, 198, 200]
    # Without a time, the value is NULL.
    for metric in ("ttft", "client_wait"):
        assert found[metric]["value_count"] == 0
        assert {found[metric][name] for name in names} == {None}
    assert [row["value_ns"] // MS for row in curve] == list(range(2, 201, 2))
    assert [row["cumulative_pct"] for row in curve] == list(range(1, 101))
    assert len(every) == 200


def test_many_omitted_requests_are_a_warning(make_run, tmp_path):
    """Up to five of a hundred are noted. Requests outside the measured load do not count."""
    severities = {0: "ok", 1: "note", 5: "note", 6: "warn", 100: "warn"}
    for failed in severities:
        load = [
            request(n, "refused" if n < failed else "ok", sent_ns=0, end_ns=1) for n in range(100)
        ]
        load += [request(n, "refused", is_warmup=True) for n in range(100, 150)]
        make_run(f"{failed}", load, stage="serve", engine="vllm")
    with tracekit.open(tmp_path, traces=False, cache=False) as trace:
        rows = trace.query("run_health").to_dicts()
    left_out = [row for row in rows if row["metric"] == "requests_left_out"]
    assert {row["value"]: row["severity"] for row in left_out} == severities


def test_lives_of_a_real_run_fill_the_time_of_its_requests(opened):
    trace = opened(SAMPLE)
    rows = trace.query("request_life", limit=0).to_dicts()
    asked = {row["request_id"]: row for row in trace.query("request_steps", limit=0).to_dicts()}
    assert asked
    for number, row in asked.items():
        own = [one for one in rows if one["request_id"] == number]
        by_part = {part: sum(r["dur_ns"] for r in own if r["part"] == part) for part in PARTS}
        # The step that makes the last token may end a little after the client has it.
        late_ns = sum(one["end_ns"] for one in own[-1:]) - own[0]["start_ns"] - row["e2e_ns"]
        assert sum(one["dur_ns"] for one in own) == row["e2e_ns"] + max(late_ns, 0)
        assert late_ns < 1_000_000
        if row["traced_step_count"] == row["step_count"]:
            assert by_part["queued"] == row["queue_ns"]
            assert by_part["not traced"] == 0
        assert by_part["prefill"] == row["prefill_ns"]
        assert sum(one["step"] is not None for one in own) == row["traced_step_count"]
