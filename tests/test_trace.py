"""Opening files, folders, and globs: which ranks they are, and errors of unclear arguments."""

import json
import os
from pathlib import Path

import pytest
from every_trace import MADE_UP

import tracekit
from tracekit.analysis.breakdown import BREAKDOWN, ROLES, RUN_IDLE, TOTALS
from tracekit.errors import QueryError, StoreError, TraceError, UsageError
from tracekit.ingest.sources import find_traces
from tracekit.ingest.trace_metadata import find_rank
from tracekit.opening import OpenRequest, ingest, open_request

pytestmark = pytest.mark.usefixtures("cache")


def kernel(ts=1, dur=1, name="k"):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur} | {
        "args": {"device": 0, "stream": 7}
    }


def job(rank, world_size=4):
    return {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world_size}}


def health(trace):
    rows = {}
    for row in trace.health().to_dicts():
        rows.setdefault(row["metric"], []).append((row["rank"], row["value"], row["severity"]))
    return rows


@pytest.mark.parametrize(
    ("rank", "found"),
    [
        *((rank, 3) for rank in (3, "3", " 3 ", 3.0)),
        (0, 0),
        *((rank, None) for rank in (-1, "x", None, [1], 1.5, 2**70, "9" * 30, "")),
    ],
)
def test_the_rank_in_a_file(rank, found):
    source = "unknown" if found is None else "distributedInfo"
    assert find_rank({"distributedInfo": {"rank": rank}}, "trace.json") == (found, source)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        *(("rank0.json.gz", 0), ("rank_12.json", 12), ("rank-3.pt.trace.json.gz", 3)),
        *(("trace.rank7.json", 7), ("Rank=5.json", 5), ("node1_worker2.json", 2)),
        ("worker6_step_12.1694128201553.pt.trace.json.gz", 6),
        *(("trace_r3_step5.json", 3), ("model-TP2-rank1.json", 1)),
        *((name, None) for name in ("frank3.json", "ranking3.json", "trace.json", "step_12.json")),
        *((name, None) for name in ("resnet50.json", "r3.json")),
        ("host.1694128201553.pt.trace.json.gz", None),
    ],
)
def test_the_rank_in_a_file_name(name, rank):
    assert find_rank({}, name) == (rank, "unknown" if rank is None else "file name")
    # The file itself takes precedence.
    assert find_rank(job(9), name) == (9, "distributedInfo")
    assert find_rank({"distributedInfo": "?"}, name)[0] == rank


def test_the_rank_of_a_collector_precedes_the_file_name():
    assert find_rank({"tracekit_rank": "3"}, "rank1.json") == (3, "tracekit_rank")
    both = {"tracekit_rank": 3, "distributedInfo": {"rank": 2}}
    assert find_rank(both, "rank1.json") == (2, "distributedInfo")


def test_an_unknown_rank_is_unknown(tiny_trace):
    with tracekit.open(tiny_trace([kernel()])) as trace:
        assert trace.query("timeline").column("rank") == [None]
        assert trace.query("trace").to_dicts()[0]["rank_source"] == "unknown"
        assert health(trace)["rank_unknown"] == [(None, 1.0, "note")]
        assert health(trace)["missing_ranks"] == [(None, None, "ok")]


def test_ranks_of_a_run(tiny_trace):
    """Rank 1 is missing, rank 2 is duplicated, and one file has no rank."""
    tiny_trace([kernel()], name="run/a.json", **job(0))
    tiny_trace([kernel(dur=2)], name="run/b.json", **job("2"))
    tiny_trace([kernel(dur=3)], name="run/c.json", **job(2))
    path = tiny_trace([kernel(dur=4)], name="run/d.json")
    with tracekit.open(path.parent) as trace:
        assert trace.query("trace").column("rank") == [0, 2, 2, None]
        timeline = trace.query("timeline").to_dicts()
        assert [(row["rank"], row["window_ns"]) for row in timeline] == [
            (0, 1000),
            (2, 2000),
            (2, 3000),
            (None, 4000),
        ]
        metrics = health(trace)
        assert metrics["duplicate_ranks"] == [
            (0, 0.0, "ok"),
            (2, 1.0, "warn"),
            (2, 1.0, "warn"),
            (None, None, "ok"),
        ]
        assert [value for _, value, _ in metrics["missing_ranks"]] == [2.0] * 4
        assert [severity for *_, severity in metrics["rank_unknown"]] == ["ok"] * 3 + ["note"]
        # Files of the same rank are not mixed.
        classes = trace.query("kernel_classes").to_dicts()
        assert [row["kernel_ns"] for row in classes] == [1000, 2000, 3000, 4000]
        assert [row["wall_pct"] for row in classes] == [100.0] * 4


@pytest.fixture
def run_folder(tiny_trace, tmp_path):
    for rank in (10, 9, 0):
        tiny_trace([kernel()], name=f"run/rank{rank}.json.gz", **job(rank, 16))
    folder = tmp_path / "run"
    (folder / "run.json").write_text("{}")
    (folder / "requests.jsonl").write_text("{}")
    (folder / ".hidden.json").write_text("{}")
    (folder / "notes.txt").write_text("x")
    (folder / "logs").mkdir()
    (folder / "logs" / "other.json").write_text("{}")
    return folder


def names(paths):
    return [path.name for path in paths]


RANKS = ["rank0.json.gz", "rank9.json.gz", "rank10.json.gz"]


def test_a_folder_is_the_traces_in_it(run_folder):
    assert names(find_traces([run_folder])) == RANKS
    assert names(find_traces([f"{run_folder}/"])) == RANKS


@pytest.mark.parametrize("pattern", ["rank*.json.gz", "rank*", "*.json.gz", "r*nk?*.gz"])
def test_a_glob_is_the_traces_that_match(run_folder, monkeypatch, pattern):
    found = find_traces([f"{run_folder}/{pattern}"])
    assert [name for name in names(found) if name != ".hidden.json"] == RANKS
    monkeypatch.chdir(run_folder.parent)
    assert find_traces([f"run/{pattern}"]) == found


def test_a_glob_that_the_shell_expanded(run_folder):
    given = sorted(run_folder.glob("*.json*"))
    assert "run.json" in names(given)
    assert "run.json" not in names(find_traces(given))


def test_a_file_whose_name_looks_like_a_glob(tiny_trace):
    path = tiny_trace([kernel()], name="trace [1]*.json")
    assert find_traces([path]) == [path]


def test_several_paths_and_the_same_file_twice(run_folder, tmp_path):
    one = run_folder / "rank0.json.gz"
    link = tmp_path / "link.json.gz"
    link.symlink_to(one)
    assert find_traces([one, one, link, run_folder / "." / one.name]) == [one]
    assert names(find_traces([run_folder, one])) == RANKS


def test_unusable_arguments_are_refused(run_folder, tmp_path):
    with pytest.raises(TraceError):
        tracekit.open()
    with pytest.raises(TraceError, match=r"rank00\.json\.gz") as raised:
        tracekit.open(run_folder / "rank00.json.gz")
    assert all(name in str(raised.value.hint) for name in RANKS)
    with pytest.raises(TraceError, match=r"such/\*\.json") as raised:
        tracekit.open(run_folder / "no" / "such" / "*.json")
    assert raised.value.hint is None
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "requests.jsonl").write_text("{}")
    with pytest.raises(TraceError, match=f"^{tmp_path / 'empty'}: ") as raised:
        tracekit.open(tmp_path / "empty")
    assert ".json.gz" in str(raised.value.hint)
    store = tmp_path / "x.duckdb"
    store.write_bytes(b"")
    with pytest.raises(TraceError, match="store"):
        tracekit.open(run_folder, store)


def test_a_file_name_that_is_no_unicode(tiny_trace, tmp_path):
    path = tiny_trace([kernel()])
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.json"))
    try:
        path.rename(odd)
    except OSError as error:
        pytest.skip(f"the file system takes no such name: {error}")
    with tracekit.open(odd) as trace:
        assert trace.query("trace").to_dicts()[0]["file"] == f"{tmp_path}/caf\ufffd.json"


def test_one_bad_file_among_ranks_is_named(run_folder):
    (run_folder / "rank9.json.gz").write_bytes(b"{}")
    with pytest.raises(TraceError, match=rf"^{run_folder}/rank9\.json\.gz: "):
        tracekit.open(run_folder)


@pytest.fixture(scope="module")
def sample_progress():
    return []


@pytest.fixture(scope="module")
def sample_breakdown(sample_trace, sample_progress):
    """Return the breakdown of the sample without a cache."""
    request = OpenRequest([sample_trace], cache=False, progress=sample_progress.append)
    with open_request(request) as trace:
        return trace.breakdown()


def test_a_trace_and_its_store_have_the_same_breakdown(sample_trace, sample_breakdown, opened):
    with tracekit.open(opened(sample_trace).store_path) as store:
        assert store.breakdown() == sample_breakdown
    more = (*TOTALS.values(), RUN_IDLE, ROLES)
    assert [name for name in sample_breakdown if name not in more] == [*BREAKDOWN]


def test_unknown_questions(tiny_trace):
    with tracekit.open(tiny_trace([kernel()])) as trace:
        with pytest.raises(QueryError) as raised:
            trace.query("timelin")
        assert "timeline" in str(raised.value.hint)
        with pytest.raises(QueryError):
            trace.query("kernels", limits=3)
        with pytest.raises(tracekit.UsageError):
            trace.query("kernels", limit="many")
        with pytest.raises(QueryError):
            trace.sql("SELECT * FROM no_such_table")
        assert trace.query("kernels", limit=1).rows  # An error leaves the trace usable.


@pytest.mark.usefixtures("sample_breakdown")
def test_progress_is_reported(sample_trace, sample_progress):
    assert sample_progress
    size = sample_trace.stat().st_size
    assert {(step.path, step.bytes_total) for step in sample_progress} == {
        (str(sample_trace), size)
    }
    assert sample_progress[-1].bytes_read == size


def test_huge_durations_do_not_break_the_sums(tiny_trace):
    events = [kernel(ts=4e15, dur=1e12), kernel(ts=4e15, dur=1e12), kernel(dur=4e15)]
    path = tiny_trace(json.dumps(events * 1000))
    with tracekit.open(path) as trace:
        answers = trace.breakdown()
        assert answers["timeline"].column("window_ns") == [1_000_000_000_000_000]
        assert answers["kernel_classes"].column("kernel_ns") == [2_000_000_000_000_000_000]
        assert answers["trace"].column("rejected_count") == [1000]


def test_a_closed_trace(tiny_trace):
    trace = tracekit.open(tiny_trace([kernel()]), cache=False)
    trace.close()
    trace.close()
    for ask in (
        *(trace.breakdown, trace.health),
        *(lambda: trace.sql("SELECT 1"), lambda: trace.query("timeline")),
    ):
        with pytest.raises(StoreError, match="closed"):
            ask()


def test_the_name_of_a_store_ends_in_duckdb(sample_trace, tmp_path):
    with pytest.raises(UsageError, match=r"run\.db: .*\.duckdb"):
        ingest([sample_trace], tmp_path / "run.db")
    assert [*tmp_path.rglob("*")] == [tmp_path / "tmp"]


def test_answers_show_themselves_in_one_line_and_as_html(opened):
    trace = opened(MADE_UP)
    answers = (
        trace.advise(),
        trace.predict("host x0.5"),
        tracekit.compare(trace, trace),
        trace.plot.phases(),
        trace.query("phases"),
    )
    assert all(len(repr(one)) < 300 and "\n" not in repr(one) for one in answers)
    assert all(one._repr_html_().startswith(("<table", "<svg")) for one in answers)
    assert "phases" in repr(trace.plot)


def test_repr(run_folder, tiny_trace):
    with tracekit.open(run_folder) as trace:
        assert repr(trace) == f"<Trace: traces of {str(run_folder)!r}>"
    path = tiny_trace([kernel()])
    with tracekit.open(path, cache=False) as trace:
        assert repr(trace) == f"<Trace: {str(path)!r}>"
