"""Opening files, folders and globs: which ranks they are, and what is said when that is unclear."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks

import tracekit
from tracekit.analysis.breakdown import BREAKDOWN, ROLES, RUN_IDLE, TOTALS
from tracekit.analysis.result import Result
from tracekit.errors import QueryError, StoreError, TraceError, UsageError
from tracekit.ingest.sources import find_traces
from tracekit.ingest.trace_metadata import as_int, find_rank
from tracekit.opening import ingest

Write = Callable[..., Path]
Breakdown = dict[str, Result]


pytestmark = pytest.mark.usefixtures("cache")


def kernel(ts: float = 1, dur: float = 1, name: str = "k") -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur} | {
        "args": {"device": 0, "stream": 7}
    }


def job(rank: object, world_size: object = 4) -> dict[str, Any]:
    return {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world_size}}


def health(trace: tracekit.Trace) -> dict[str, list[tuple[Any, ...]]]:
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for row in trace.health().to_dicts():
        rows.setdefault(row["metric"], []).append((row["rank"], row["value"], row["severity"]))
    return rows


# -- which rank ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rank", "found"),
    [
        (3, 3),
        ("3", 3),
        (" 3 ", 3),
        (3.0, 3),
        (0, 0),
        (-1, None),
        ("x", None),
        (None, None),
        ([1], None),
        (1.5, None),
        (2**70, None),
        ("9" * 30, None),
        ("", None),
    ],
)
def test_the_rank_that_the_file_tells(rank: object, found: int | None) -> None:
    source = "unknown" if found is None else "distributedInfo"
    assert find_rank({"distributedInfo": {"rank": rank}}, "trace.json") == (found, source)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank0.json.gz", 0),
        ("rank_12.json", 12),
        ("rank-3.pt.trace.json.gz", 3),
        ("trace.rank7.json", 7),
        ("Rank=5.json", 5),
        ("worker6_step_12.1694128201553.pt.trace.json.gz", 6),
        ("node1_worker2.json", 2),
        ("trace_r3_step5.json", 3),
        ("model-TP2-rank1.json", 1),
        ("frank3.json", None),
        ("ranking3.json", None),
        ("trace.json", None),
        ("step_12.json", None),
        ("host.1694128201553.pt.trace.json.gz", None),
        ("resnet50.json", None),
        ("r3.json", None),
    ],
)
def test_the_rank_that_the_name_tells(name: str, rank: int | None) -> None:
    assert find_rank({}, name) == (rank, "unknown" if rank is None else "file name")
    # What the file itself says counts for more.
    assert find_rank(job(9), name) == (9, "distributedInfo")
    assert find_rank({"distributedInfo": "?"}, name)[0] == rank


def test_the_rank_that_a_collector_wrote_goes_before_the_file_name() -> None:
    assert find_rank({"tracekit_rank": "3"}, "rank1.json") == (3, "tracekit_rank")
    told = {"tracekit_rank": 3, "distributedInfo": {"rank": 2}}
    assert find_rank(told, "rank1.json") == (2, "distributedInfo")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1),
        (5, 5),
        (-5, -5),
        (5.0, 5),
        (5.5, None),
        ("5", 5),
        ("-5", -5),
        ("5.0", None),
        ("٣", None),
        (2**63, None),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (1e300, None),
        (float("inf"), None),
        (float("nan"), None),
        (None, None),
        ([], None),
        ("5_0", None),
    ],
)
def test_whole_numbers(value: object, number: int | None) -> None:
    assert as_int(value) == number


def test_an_unknown_rank_is_unknown(tiny_trace: Write) -> None:
    with tracekit.open(tiny_trace([kernel()])) as trace:
        assert trace.query("timeline").column("rank") == [None]
        assert trace.query("trace").to_dicts()[0]["rank_source"] == "unknown"
        assert health(trace)["rank_unknown"] == [(None, 1.0, "note")]
        assert health(trace)["missing_ranks"] == [(None, None, "ok")]


def test_ranks_of_a_run(tiny_trace: Write) -> None:
    """Rank 1 is missing, rank 2 comes twice, one file says nothing."""
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
        said = health(trace)
        assert said["duplicate_ranks"] == [
            (0, 0.0, "ok"),
            (2, 1.0, "warn"),
            (2, 1.0, "warn"),
            (None, None, "ok"),
        ]
        assert [value for _, value, _ in said["missing_ranks"]] == [2.0] * 4
        assert [severity for *_, severity in said["rank_unknown"]] == ["ok"] * 3 + ["note"]
        # Nothing of one file is mixed with another of the same rank.
        classes = trace.query("kernel_classes").to_dicts()
        assert [row["kernel_ns"] for row in classes] == [1000, 2000, 3000, 4000]
        assert [row["wall_pct"] for row in classes] == [100.0] * 4


def test_devices_of_a_process_and_of_nothing(tmp_path: Path) -> None:
    """An event that names neither device nor process is not lost."""
    devices = [kernel(), {**kernel(5), "args": {"device": 1, "stream": 7}}]
    nothing = [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}]
    with opened_as_ranks(tmp_path, [devices, nothing]) as trace:
        rows = trace.query("timeline").to_dicts()
        kernel_ns = {r["rank"]: r["kernel_ns"] for r in trace.query("kernel_classes").to_dicts()}
    assert [(r["rank"], r["device"], r["window_ns"], r["idle_ns"]) for r in rows] == [
        (0, "0", 1000, 0),
        (0, "1", 1000, 0),
        (1, "unknown", 2000, 0),
    ]
    assert (rows[2]["busy_ns"], rows[2]["event_count"], kernel_ns[1]) == (2000, 1, 2000)


# -- which files -----------------------------------------------------------------------------------


@pytest.fixture
def run_folder(tiny_trace: Write, tmp_path: Path) -> Path:
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


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


RANKS = ["rank0.json.gz", "rank9.json.gz", "rank10.json.gz"]


def test_a_folder_is_the_traces_in_it(run_folder: Path) -> None:
    assert names(find_traces([run_folder])) == RANKS
    assert names(find_traces([f"{run_folder}/"])) == RANKS


@pytest.mark.parametrize("pattern", ["rank*.json.gz", "rank*", "*.json.gz", "r*nk?*.gz"])
def test_a_glob_is_the_traces_that_match(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    found = find_traces([f"{run_folder}/{pattern}"])
    assert [name for name in names(found) if name != ".hidden.json"] == RANKS
    monkeypatch.chdir(run_folder.parent)
    assert find_traces([f"run/{pattern}"]) == found


def test_a_glob_that_the_shell_has_opened(run_folder: Path) -> None:
    given = sorted(run_folder.glob("*.json*"))
    assert "run.json" in names(given)
    assert "run.json" not in names(find_traces(given))


def test_a_file_whose_name_looks_like_a_glob(tiny_trace: Write) -> None:
    path = tiny_trace([kernel()], name="trace [1]*.json")
    assert find_traces([path]) == [path]


def test_several_paths_and_the_same_file_twice(run_folder: Path, tmp_path: Path) -> None:
    one = run_folder / "rank0.json.gz"
    link = tmp_path / "link.json.gz"
    link.symlink_to(one)
    assert find_traces([one, one, link, run_folder / "." / one.name]) == [one]
    assert names(find_traces([run_folder, one])) == RANKS


def test_no_trace_was_given() -> None:
    with pytest.raises(TraceError) as raised:
        tracekit.open()
    assert raised.value.message == "no trace was given"


def test_no_such_file(run_folder: Path) -> None:
    with pytest.raises(TraceError) as raised:
        tracekit.open(run_folder / "rank00.json.gz")
    assert raised.value.message == f"{run_folder / 'rank00.json.gz'}: no such file or folder"
    assert raised.value.hint == "did you mean rank0.json.gz or rank10.json.gz or rank9.json.gz?"
    with pytest.raises(TraceError, match="no such file or folder") as raised:
        tracekit.open(run_folder / "no" / "such" / "*.json")
    assert raised.value.hint is None


def test_a_folder_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "requests.jsonl").write_text("{}")
    with pytest.raises(TraceError) as raised:
        tracekit.open(tmp_path / "empty")
    assert raised.value.message == f"{tmp_path / 'empty'}: there is no trace in this folder"
    assert raised.value.hint == (
        "traces end in .xplane.pb or .json or .json.gz or .sqlite or .db or .pickle or .pkl "
        "or .pftrace"
    )


def test_a_store_among_traces(run_folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "x.duckdb"
    store.write_bytes(b"")
    with pytest.raises(TraceError, match="a store cannot be mixed with traces"):
        tracekit.open(run_folder, store)


def test_a_file_name_that_is_no_unicode(tiny_trace: Write, tmp_path: Path) -> None:
    path = tiny_trace([kernel()])
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.json"))
    try:
        path.rename(odd)
    except OSError as error:
        pytest.skip(f"the file system takes no such name: {error}")
    with tracekit.open(odd) as trace:
        assert trace.query("trace").to_dicts()[0]["file"] == f"{tmp_path}/caf\ufffd.json"


def test_one_bad_file_among_ranks_is_named(run_folder: Path) -> None:
    (run_folder / "rank9.json.gz").write_bytes(b"{}")
    with pytest.raises(TraceError, match=rf"^{run_folder}/rank9\.json\.gz: not a Chrome trace"):
        tracekit.open(run_folder)


# -- the facade ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample_progress() -> list[tracekit.Progress]:
    return []


@pytest.fixture(scope="module")
def sample_breakdown(sample_trace: Path, sample_progress: list[tracekit.Progress]) -> Breakdown:
    """What a breakdown of the sample says that is asked behind the opening, without a cache."""
    told = sample_progress.append
    with tracekit.open(sample_trace, cache=False, progress=told) as trace:
        return trace.breakdown()


def test_a_trace_and_its_store_say_the_same(
    sample_trace: Path,
    sample_breakdown: Breakdown,
    opened: Callable[[Path], tracekit.Trace],
    tmp_path: Path,
) -> None:
    with tracekit.open(ingest([sample_trace], tmp_path / "run.duckdb")) as store:
        answers = [opened(sample_trace).breakdown(), sample_breakdown, store.breakdown()]
    assert [name for name in answers[0] if name not in (*TOTALS.values(), RUN_IDLE, ROLES)] == list(
        BREAKDOWN
    )
    assert answers[0] == answers[1] == answers[2]


def test_unknown_questions(tiny_trace: Write) -> None:
    with tracekit.open(tiny_trace([kernel()])) as trace:
        with pytest.raises(QueryError) as raised:
            trace.query("timelin")
        assert raised.value.hint is not None
        assert "timeline" in raised.value.hint
        with pytest.raises(QueryError):
            trace.query("kernels", limits=3)
        with pytest.raises(tracekit.UsageError):
            trace.query("kernels", limit="many")
        with pytest.raises(QueryError):
            trace.sql("SELECT * FROM no_such_table")
        assert trace.query("kernels", limit=1).rows  # An error leaves the trace usable.


@pytest.mark.usefixtures("sample_breakdown")
def test_progress_is_told(sample_trace: Path, sample_progress: list[tracekit.Progress]) -> None:
    assert sample_progress
    size = sample_trace.stat().st_size
    assert {(step.path, step.bytes_total) for step in sample_progress} == {
        (str(sample_trace), size)
    }
    assert sample_progress[-1].bytes_read == size


def test_huge_durations_do_not_break_the_sums(tiny_trace: Write) -> None:
    """A file may say anything; nothing may overflow."""
    events = [kernel(ts=4e15, dur=1e12), kernel(ts=4e15, dur=1e12), kernel(dur=4e15)]
    path = tiny_trace(json.dumps(events * 1000))
    with tracekit.open(path) as trace:
        answers = trace.breakdown()
        assert answers["timeline"].column("window_ns") == [1_000_000_000_000_000]
        assert answers["kernel_classes"].column("kernel_ns") == [2_000_000_000_000_000_000]
        assert answers["trace"].column("rejected_count") == [1000]


def test_a_trace_closes_once_and_for_all(tiny_trace: Write) -> None:
    trace = tracekit.open(tiny_trace([kernel()]), cache=False)
    trace.close()
    trace.close()
    for ask in (
        *(trace.breakdown, trace.health),
        *(lambda: trace.sql("SELECT 1"), lambda: trace.query("timeline")),
    ):
        with pytest.raises(StoreError, match=r"^the trace is closed$"):
            ask()


def test_a_store_has_the_name_of_one(sample_trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"run\.db: a store's name ends in \.duckdb"):
        ingest([sample_trace], tmp_path / "run.db")
    assert [*tmp_path.rglob("*")] == [tmp_path / "tmp"]


def test_a_trace_says_what_it_is_of(opened: Callable[[Path], tracekit.Trace]) -> None:
    run = Path(__file__).resolve().parents[1] / "sample_traces" / "pretrain_R+Z3"
    assert repr(opened(run)) == f"<Trace: traces of {str(run)!r}>"
    sample = run.parents[1] / "docs" / "samples" / "made_up_step.json"
    assert repr(opened(sample)) == f"<Trace: {str(sample)!r}>"
