"""Run folders as TRACE: one run, several runs, or one file of a run."""

import gzip
import json
import os

import pytest

import tracekit
from tracekit.analysis import breakdown
from tracekit.analysis.breakdown import BREAKDOWN, RUN_IDLE, TOTALS
from tracekit.errors import QueryError, TraceError, UsageError
from tracekit.ingest.sources import find_sources
from tracekit.opening import ingest

EVENT = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
OK = {"request_id": 0, "outcome": "ok", "sent_ns": 0, "end_ns": 5_000_000, "output_token_count": 2}


pytestmark = pytest.mark.usefixtures("cache")


def add_trace(folder, name="rank0.json.gz"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": [EVENT]}).encode()))
    return path


def shown(trace):
    """Return the analyses of a breakdown without its totals."""
    return [name for name in trace.breakdown() if name not in (*TOTALS.values(), RUN_IDLE)]


@pytest.fixture
def sweep(make_run, tmp_path):
    """Return a folder with two runs with a trace, one without, one hidden, and one deeper."""
    for name in ("run2", "run10"):
        add_trace(make_run(name, into="sweep"))
    make_run("oom", into="sweep/deep/er", outcome="oom", reason="CUDA out of memory")
    add_trace(make_run(".run3.partial-1", into="sweep"))
    make_run("inner", into="sweep/run2/logs")
    (tmp_path / "sweep" / "sweep.json").write_text("{}")
    return tmp_path / "sweep"


@pytest.mark.parametrize("given", ["", "rank0.json.gz", "run.json", "*", "rank*.gz"])
def test_a_run_by_its_folder_or_a_file_in_it(make_run, given):
    folder = make_run("one", [OK], opt="R+Z3")
    add_trace(folder)
    (folder / "logs").mkdir()
    with tracekit.open(folder / given) as trace:
        assert trace.sql("SELECT run_id, file_name FROM trace").rows == [("one", "rank0.json.gz")]
        assert trace.query("run").column("opt") == ["R+Z3"]
        assert trace.query("timeline").column("window_ns") == [2000]
        assert trace.query("latency").column("max_ns")[0] == 5_000_000
        assert shown(trace) == [
            "trace",
            "run",
            *breakdown.SERVING_BREAKDOWN,
            *breakdown.SERVED_BREAKDOWN,
            *BREAKDOWN[1:],
            breakdown.ROLES,
        ]


def test_a_trace_without_a_run(tmp_path):
    path = add_trace(tmp_path / "plain")
    with tracekit.open(path, cache=False) as trace:
        assert shown(trace) == [*BREAKDOWN, breakdown.ROLES]
        assert trace.sql("SELECT run_id FROM trace").rows == [(None,)]
        assert trace.sql("FROM run").rows == trace.sql("FROM request").rows == []
        assert not any("manifest" in metric for metric in trace.health().column("metric"))


def test_training_has_no_latency(make_run):
    folder = make_run("one")
    add_trace(folder)
    with tracekit.open(folder, cache=False) as trace:
        assert shown(trace) == ["trace", "run", *BREAKDOWN[1:], breakdown.ROLES]


def test_analyses_of_requests_need_requests(make_run, tmp_path):
    names = ("latency", "latency_cdf", "requests", "throughput")
    folder = make_run("one")
    store = ingest([add_trace(folder)], tmp_path / "one.duckdb")
    for given in (folder, store):
        with tracekit.open(given) as trace:
            for name in names:
                with pytest.raises(QueryError, match=f"{name} .*{folder}") as raised:
                    trace.query(name)
                assert "tracekit collect --stage serve" in str(raised.value.hint)
    make_run("two")
    with tracekit.open(tmp_path) as runs:
        for name in names:
            with pytest.raises(QueryError, match=f"{name} .*2 runs"):
                runs.query(name)
    make_run("three", [OK], stage="serve", engine="tgi")
    with tracekit.open(tmp_path) as runs:
        for name in names:
            assert set(runs.query(name).column("run")) == {"three"}, name


def test_a_request_with_times_that_overflow_is_rejected(make_run):
    folder = make_run("one", [OK, OK | {"request_id": 2, "end_ns": -(2**63)}], stage="serve")
    with tracekit.open(folder) as trace:
        assert len(trace.query("requests").rows) == 1
        assert trace.sql("SELECT request_count, rejected_count FROM run").rows == [(1, 1)]


def test_a_run_without_a_trace(make_run):
    folder = make_run("one", [OK], stage="serve", engine="tgi")
    with tracekit.open(folder) as trace:
        assert list(trace.breakdown()) == ["run", *breakdown.SERVING_BREAKDOWN, "health"]
        assert trace.health().column("rank") == [None] * len(trace.health())
        with pytest.raises(QueryError, match=f"timeline .*{folder}"):
            trace.query("timeline")
        with pytest.raises(QueryError):
            trace.predict("host x0.5")


BROKEN = ["{", "{}", '{"schema_version": 99}', "\0"]


def test_a_broken_manifest_without_a_trace_is_an_error(make_run):
    folder = make_run("one")
    for content in BROKEN:
        (folder / "run.json").write_text(content)
        with pytest.raises(TraceError, match=r"run\.json: "):
            tracekit.open(folder)


def test_a_broken_manifest_does_not_stop_the_trace(make_run):
    folder = make_run("one")
    add_trace(folder)
    (folder / "run.json").write_text("{}")
    with tracekit.open(folder, cache=False) as trace:
        assert trace.query("timeline").column("window_ns") == [2000]
        warned = [row for row in trace.health().to_dicts() if row["metric"].startswith("manifest")]
        assert [(row["value"], row["severity"]) for row in warned] == [(1.0, "warn")]
        assert warned[0]["meaning"].startswith(f"{folder}/run.json: ")
        assert trace.breakdown()["health"] == trace.health()


def test_a_changed_run_is_read_again(make_run):
    folder = make_run("one", [OK], opt="Z2")
    with tracekit.open(folder) as trace:
        stored = trace.store_path
        assert trace.query("run").column("opt") == ["Z2"]
    with tracekit.open(folder) as trace:
        assert trace.store_path == stored
    text = (folder / "run.json").read_text().replace("Z2", "Z3")
    (folder / "run.json").write_text(text)
    os.utime(folder / "run.json", ns=(1, 1))
    with tracekit.open(folder) as trace:
        assert trace.query("run").column("opt") == ["Z3"]
    with (folder / "requests.jsonl").open("a") as file:
        file.write(json.dumps({**OK, "request_id": 1}) + "\n")
    with tracekit.open(folder) as trace:
        assert trace.query("run").column("request_count") == [2]
    (folder / "requests.jsonl").unlink()
    with tracekit.open(folder) as trace:
        assert trace.query("run").column("request_count") == [0]


def test_a_trace_of_a_run_and_a_plain_trace(make_run, tmp_path):
    run = add_trace(make_run("one"))
    plain = add_trace(tmp_path / "plain", "rank1.json.gz")
    with tracekit.open(run, plain, cache=False) as trace:
        rows = trace.sql("SELECT file_name, run_id FROM trace ORDER BY ALL").rows
    assert rows == [("rank0.json.gz", "one"), ("rank1.json.gz", None)]


def test_a_folder_of_runs_in_natural_order(sweep):
    runs = [sweep / "deep" / "er" / "oom", sweep / "run2", sweep / "run10"]
    assert find_sources([sweep], traces=False)[:2] == ([], runs)
    assert find_sources([sweep])[:2] == ([], runs)
    assert find_sources([f"{sweep}/run*"], traces=False)[:2] == ([], runs[1:])
    assert find_sources([f"{sweep}/run*"])[:2] == ([], runs[1:])
    assert find_sources([sweep / "run10", sweep])[:2] == ([], [runs[2], *runs[:2]])
    assert find_sources(runs)[:2] == ([], runs)
    only = find_sources([sweep / "run2"])
    assert only[:2] == ([runs[1] / "rank0.json.gz"], [runs[1]])


def test_a_folder_with_one_run_is_that_run(make_run, tmp_path):
    folder = make_run("one", into="sweep")
    path = add_trace(folder)
    assert find_sources([tmp_path / "sweep"])[:2] == ([path], [folder])


def test_several_runs_are_read_without_their_traces(sweep, monkeypatch):
    monkeypatch.setattr("tracekit.ingest.load.load_trace", None)
    for traces in (True, False):
        with tracekit.open(sweep, traces=traces) as runs:
            assert runs.query("methods").column("run") == ["oom", "run10", "run2"]
            assert runs.sql("FROM trace").rows == []
    with tracekit.open(sweep / "run2", traces=False) as runs:
        assert runs.query("run").column("run") == ["run2"]


def test_analyses_of_one_run_name_the_runs(sweep):
    with tracekit.open(sweep) as runs:
        for ask in (lambda: runs.query("timeline"), runs.breakdown, runs.health):
            with pytest.raises(UsageError) as raised:
                ask()
            assert raised.value.message.endswith("oom, run2, run10")
            assert f"{sweep}/deep/er/oom" in str(raised.value.hint)


def test_at_most_ten_runs_are_named(make_run, tmp_path):
    for number in range(12):
        make_run(f"run{number}")
    with tracekit.open(tmp_path) as runs, pytest.raises(UsageError) as raised:
        runs.query("timeline")
    assert raised.value.message.endswith(", ".join(f"run{n}" for n in range(10)) + " and 2 more")


def test_no_run_and_no_such_folder(tmp_path):
    path = add_trace(tmp_path / "plain")
    for given in (path, path.parent, tmp_path / "none"):
        with pytest.raises(TraceError, match=f"^{given}: "):
            tracekit.open(given, traces=False)
    with pytest.raises(TraceError, match=f"^{tmp_path / 'none'}: "):
        tracekit.open(path, tmp_path / "none", traces=False)


def test_commands(sweep, cli, tmp_path):
    methods = cli("query", "methods", sweep, "--format", "json")
    assert [row["run"] for row in methods.json()] == ["oom", "run10", "run2"]
    assert cli("query", "timeline", sweep / "run2", "--format", "json").json()[0]["rank"] == 0
    refused = cli("breakdown", sweep)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: breakdown ")
    assert cli("query", "methods", add_trace(tmp_path / "plain")).exit_code == 3


def test_a_store_of_runs(sweep, cli, tmp_path):
    store = tmp_path / "runs.duckdb"
    made = cli("ingest", sweep, "-o", store)
    assert made.stderr.splitlines()[0] == f"{store}: 0 traces, 0 events, 3 runs"
    assert len(cli("query", "methods", store, "--format", "json").json()) == 3
    refused = cli("query", "timeline", store)
    assert (refused.exit_code, refused.stdout) == (2, "")
    one = tmp_path / "one.duckdb"
    made = cli("ingest", sweep / "run2", "-o", one)
    assert made.stderr.splitlines()[-1] == f"{one}: 1 trace, 1 events, 1 run"
    sections = list(cli("breakdown", one, "--format", "json").json())
    assert sections[:3] == ["trace", "trace_totals", "run"]


def test_the_cache_lists_the_source_of_a_store_of_runs(make_run, cli):
    folder = make_run("one", [OK])
    assert cli("query", "latency", folder).exit_code == 0
    listed = cli("ingest", "cache", "list", "--format", "json").json()
    assert str(folder) in " ".join(store["source_path"] for store in listed)
