"""Analysis hung_collectives: missing, mismatched, and unfinished ranks of a collective."""

import json
import pickle

import pytest
from traces_by_hand import kernel

import tracekit


def call(record, seq, name="all_reduce", state="completed", **members):
    is_p2p = name.startswith(("send", "recv"))
    return {
        "record_id": record,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 0 if is_p2p else seq,
        "p2p_seq_id": seq if is_p2p else 0,
        "profiling_name": name if ":" in name else f"nccl:{name}",
        "time_created_ns": 1_700_000_000_000_000_000 + record,
        "input_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_sizes": [[8]],
        "output_dtypes": ["Float"],
        "state": state,
        "is_p2p": is_p2p,
        "retired": state == "completed",
        **members,
    }


def pair(record, seq, *args, **members):
    return call(record, seq, *args, process_group=("1", "pair"), **members)


ALL = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}

CASES = {
    "all is well": ({rank: [call(0, 1), call(1, 2)] for rank in range(3)}, []),
    "one did not come": (
        {
            0: [call(0, 1), call(1, 2, state="started")],
            1: [call(0, 1)],
            2: [call(0, 1), call(1, 2, state="scheduled")],
        },
        [(2, "missing", "1", "0, 2", None, None)],
    ),
    "one called nothing": (
        {0: [call(0, 1, state="started")], 1: [], 2: [call(0, 1, state="started")]},
        [(1, "missing", "1", "0, 2", None, None)],
    ),
    "of one there is no dump": (
        {0: [call(0, 1, state="started")], 2: [call(0, 1, state="started")]},
        [(1, "unfinished", None, "0, 2", None, "1")],
    ),
    **{
        f"another {name}": (
            {0: [call(0, 1, **odd)], 1: [call(0, 1)], 2: [call(0, 1)]},
            [(1, "mismatch", None, None, "0, 1, 2", None)],
        )
        for name, odd in (
            ("call", {"name": "broadcast"}),
            ("size", {"input_sizes": [[9]]}),
            ("type", {"input_dtypes": ["Half"]}),
        )
    },
    "sizes that may differ": (
        {
            rank: [
                call(0, 1, "all_to_all", input_sizes=[[rank]]),
                call(1, 2, "reduce_scatter_v", input_sizes=[[rank]]),
                call(2, 3, "scatter", input_sizes=[[8]] if rank else []),
            ]
            for rank in range(3)
        },
        [],
    ),
    "all entered and none came out": (
        {rank: [call(0, 1, state="started")] for rank in range(3)},
        [(1, "unfinished", None, "0, 1, 2", None, None)],
    ),
    "the first calls are no longer held": (
        {0: [call(7, 8), call(8, 9)], 1: [call(0, 1), call(7, 8), call(8, 9)], 2: [call(8, 9)]},
        [],
    ),
    "nothing of the group is held any more": (
        {0: [call(0, 1, state="started")], 1: [call(0, 1, state="started")], 2: [pair(9, 5)]},
        [(1, "unfinished", None, "0, 1", None, None)],
    ),
    "coalesced calls have one number": (
        {
            rank: [call(0, 1, "_all_gather_base"), call(1, 1, "coalesced", state=state)]
            for rank, state in enumerate(("completed", "started", "completed"))
        },
        [(1, "unfinished", None, "1", "0, 2", None)],
    ),
    "another group is another count": (
        {
            0: [pair(0, 1), call(1, 1)],
            1: [call(0, 1)],
            2: [pair(0, 1), pair(1, 2, state="started"), call(2, 1)],
        },
        [(2, "missing", "0", "2", None, None)],
    ),
    "a receiver waits": (
        {0: [call(0, 4, "send 0->1")], 1: [call(0, 2, "recv 1<-0", "started")], 2: []},
        [(2, "unfinished", None, "1", None, None)],
    ),
    "gloo keeps no states": (
        {
            rank: [
                call(0, 1, "gloo:all_reduce", "scheduled", retired=True),
                call(1, 2, "gloo:all_reduce", "scheduled", retired=rank != 1),
            ]
            for rank in range(3)
        },
        [(2, "unfinished", None, "1", "0, 2", None)],
    ),
    "what NCCL gave up is not finished": (
        {rank: [call(0, 1, state="started", retired=True)] for rank in range(3)},
        [(1, "unfinished", None, "0, 1, 2", None, None)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_who_hangs(case, tmp_path):
    ranks, wanted = CASES[case]
    for rank, entries in ranks.items():
        dump = {"version": "2.10", "pg_config": ALL, "entries": entries}
        # torch names them so, without a suffix.
        path = tmp_path / f"nccl_trace_rank_{rank}"
        path.write_bytes(pickle.dumps(dump, protocol=2))
    with tracekit.open(str(tmp_path / "*"), cache=False) as run:
        rows = run.query("hung_collectives").to_dicts()
    names = ("seq", "problem", "missing_ranks", "waiting_ranks", "finished_ranks", "undumped_ranks")
    assert [tuple(row[name] for name in names) for row in rows] == wanted


def test_profiler_traces_are_not_dumps(tmp_path):
    dump = {"pg_config": ALL, "entries": [call(0, 1, state="started")]}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump, protocol=2))
    recorded = {"distributedInfo": {"rank": 1}, "traceEvents": [kernel("k", 0, 9)]}
    (tmp_path / "rank1.json").write_text(json.dumps(recorded))
    with tracekit.open(str(tmp_path / "*"), cache=False) as run:
        ((problem, missing, undumped),) = run.sql(
            "SELECT problem, missing_ranks, undumped_ranks FROM hung_collectives()"
        )
    assert (problem, missing, undumped) == ("unfinished", None, "1, 2")


def test_dumps_as_json_have_lines_and_sizes(tmp_path):
    frames = [{"filename": "/home/u/t.py", "line": 9, "name": "main"}]
    for rank, sizes in enumerate(([16, 8], [8])):
        entries = [
            call(seq, seq, input_sizes=[[size]], frames=frames)
            for seq, size in enumerate(sizes, start=1)
        ]
        dump = {"comm_lib_version": "2.26", "entries": entries, "pg_config": {}}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(dump))
    with tracekit.open(tmp_path, cache=False) as run:
        rows = run.query("hung_collectives").to_dicts()
    problems = [(row["seq"], row["problem"], row["missing_ranks"]) for row in rows]
    assert problems == [(1, "mismatch", None), (2, "missing", "1")]
    assert rows[0]["sizes"] == "[[16]], [[8]]"
    assert rows[1]["line"] == "/home/u/t.py:9: main"
