"""Tables of run folders: their contents, and unreadable manifests and lines."""

import json

import pytest

import tracekit
from tracekit.ingest import json_lines

OK = {"request_id": 0, "outcome": "ok"}


def table(folder, text):
    with tracekit.open(folder, traces=False, cache=False) as runs:
        return runs.sql(text).rows


def test_every_member_of_a_manifest_is_a_column(make_run):
    folder = make_run(
        "full", command=["tracekit", "collect"],
        model={"name": "m", "parameter_count": 7, "config": {"heads": 4, "scale": float("inf")}},
        parallel={"world_size": 8, "data_size": 4, "tensor_size": 2},
        steps={"warmup_count": 30, "measured_count": 100, "repeat_count": 3, "profiled_count": 10},
        repeats=[{"tokens_per_s": 5, "wall_ns": 7, "step_ns": [3, 4], "final_loss": 1.5}],
        peak_memory=[{"rank": 1, "host_bytes": 9}],
        environment={"devices": ["A800"], "packages": {"torch": "2.13.0"}, "core_count": 2},
        load={"request_count": 9, "prompt_token_count": 1, "max_new_token_count": 2, "wall_ns": 6},
        traces=["rank0.json.gz"], job_id="of-all-ranks", exit_code=3, gradient_accumulation=2,
        ranks=[{"rank": 1, "token_count": 6}], extra={"a": [1]},
    )  # fmt: skip
    with tracekit.open(folder, traces=False, cache=False) as runs:
        (row,) = runs.sql("FROM run").to_dicts()
        repeats = runs.sql("FROM run_repeat").rows
    found = {name: value for name, value in row.items() if value is not None}
    for name in ("model_config", "peak_memory", "packages", "extra", "ranks"):
        found[name] = json.loads(found[name])
    (rank,), (memory,) = found.pop("ranks"), found.pop("peak_memory")
    assert (rank["rank"], rank["token_count"], rank["trace"]) == (1, 6, None)
    assert {name: memory[name] for name in memory if memory[name]} == {"rank": 1, "host_bytes": 9}
    assert found == {
        "run_id": "full", "path": str(folder), "folder_name": "full", "manifest_version": 3,
        "tracekit_version": "0.1.0", "created_at": "2026-01-31T12:00:00Z", "outcome": "ok",
        "stage": "pretrain", "engine": "deepspeed", "command": ["tracekit", "collect"],
        "model": "m", "parameter_count": 7, "model_config": {"heads": 4, "scale": None},
        "world_size": 8, "data_size": 4, "tensor_size": 2, "pipeline_size": 1, "node_count": 1,
        "warmup_step_count": 30, "measured_step_count": 100, "repeat_count": 3,
        "profiled_step_count": 10, "gradient_accumulation": 2, "peak_host_bytes": 9,
        "core_count": 2, "devices": ["A800"], "packages": {"torch": "2.13.0"}, "variables": "{}",
        "load_request_count": 9, "load_prompt_token_count": 1, "load_max_new_token_count": 2,
        "load_arrival": "burst", "load_warmup_count": 0, "load_retry_count": 0,
        "load_start_unix_ns": 0, "load_wall_ns": 6, "load_ok_count": 0, "load_failed_count": 0,
        "load_server": "{}", "traces": ["rank0.json.gz"], "light_traces": [], "notes": [],
        "missing_trace_count": 1, "job_id": "of-all-ranks", "exit_code": 3, "extra": {"a": [1]},
        "request_count": 0, "benchmark_count": 0, "rejected_count": 0,
    }  # fmt: skip
    assert repeats == [("full", 0, 5.0, 7, [3, 4], 1.5)]


def test_runs_of_the_same_id_stay_apart(make_run, tmp_path):
    for name in ("a", "b", "c"):
        make_run(name, [OK], run_id="same")
    ids = [("same", "a"), ("same#2", "b"), ("same#3", "c")]
    assert table(tmp_path, "SELECT run_id, folder_name FROM run ORDER BY ALL") == ids
    requests = table(tmp_path, "SELECT run_id FROM request ORDER BY ALL")
    assert requests == [(run_id,) for run_id, _ in ids]


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"seed": 2**63}, "seed"),
        ({"batch_size": 2**31}, "batch_size"),
        ({"repeats": [{"tokens_per_s": 1, "wall_ns": 1, "step_ns": [1, 2**63]}]}, "step_ns"),
        ({"schema_version": 9}, "version 9"),
    ],
)
def test_a_manifest_that_fits_no_row(make_run, tmp_path, members, word):
    make_run("good")
    make_run("odd", **members)
    rows = table(tmp_path, "SELECT outcome, reason FROM run WHERE folder_name = 'odd'")
    assert rows[0][0] == "unreadable"
    assert word in rows[0][1]


def test_text_that_is_no_unicode(make_run):
    folder = make_run("odd", ["{}"], reason="a\ud800b", run_id="it's")
    assert table(folder, "SELECT run_id, reason FROM run") == [("it's", "a\ufffdb")]


def test_members_of_requests(make_run):
    given = {
        "request_id": 3,
        "engine_request_id": "e-3",
        "is_warmup": False,
        "is_profiled": True,
        "outcome": "http_error",
        "reason": "503",
        "http_status": 503,
        "attempt_count": 2,
        "prompt_token_count": 5,
        "prompt_source": "usage",
        "output_token_count": 2,
        "arrival_ns": 1,
        "sent_ns": 2,
        "first_token_ns": 3,
        "end_ns": 2_000_000_000_000_000_001,
        "token_ns": [3, 4],
        "token_counts": [1, 1],
        "steps": [[1, 2], [5, 5]],
        "queue": {"depth": 2**70},
    }
    folder = make_run("r", [given, OK])
    with tracekit.open(folder, traces=False, cache=False) as runs:
        rows = runs.sql("FROM request ORDER BY request_id DESC").to_dicts()
        steps = runs.sql("FROM request_step").rows
        counts = runs.sql("SELECT request_count, rejected_count FROM run").rows
    assert rows[0] == {
        "run_id": "r",
        **{name: value for name, value in given.items() if name not in ("steps", "queue")},
        "extra": f'{{"queue":{{"depth": {2**70}}}}}',
    }
    empty = {name: None for name in rows[1] if name not in ("is_warmup", "is_profiled")}
    assert rows[1] == empty | {"run_id": "r", "is_warmup": False, "is_profiled": False} | OK
    assert steps == [("r", 3, 1, 2), ("r", 3, 5, 5)]
    assert counts == [(2, 0)]


UNREADABLE = {
    "junk": "JSON",
    "[]": "array",
    '{"outcome": "ok"}': "request_id",
    '{"request_id": 1}': "outcome",
    '{"request_id": 1, "outcome": "ok", "sent_ns": 1.5}': "sent_ns",
    '{"request_id": 1, "outcome": "ok", "end_ns": 9223372036854775808}': "end_ns",
    '{"request_id": 1, "outcome": "ok", "token_ns": [1, null]}': "token_ns[1]",
    '{"request_id": 1, "outcome": "ok", "output_token_count": -1}': "output_token_count",
    '{"request_id": 0, "outcome": "timeout"}': "request 0",
    '{"request_id": 1, "outcome": ': "truncated",
    "\0": "JSON",
}


def test_unreadable_lines_are_rejected(make_run):
    first = json.dumps(OK)
    folder = make_run("r", [first, *UNREADABLE, {**OK, "request_id": 7}])
    assert table(folder, "SELECT request_id FROM request ORDER BY ALL") == [(0,), (7,)]
    rows = table(
        folder, "SELECT byte_offset, text, trace_id, run_id, reason FROM rejected ORDER BY ALL"
    )
    byte_offset = len(first) + 1
    for (*row, reason), (line, word) in zip(rows, UNREADABLE.items(), strict=True):
        assert row == [byte_offset, f"{line}\n", None, "r"]
        assert word in reason
        byte_offset += len(line) + 1
    assert table(folder, "SELECT request_count, rejected_count FROM run") == [(2, len(UNREADABLE))]


def test_odd_forms_of_lines(make_run):
    """Byte order mark, empty lines, carriage returns, and no newline at the end."""
    folder = make_run("r", [])
    lines = [json.dumps({**OK, "request_id": number}).encode() for number in range(3)]
    text = b"\xef\xbb\xbf" + lines[0] + b"\r\n\n  \n" + lines[1] + b"\n" + lines[2]
    (folder / "requests.jsonl").write_bytes(text)
    assert table(folder, "SELECT request_id FROM request ORDER BY ALL") == [(0,), (1,), (2,)]
    assert table(folder, "FROM rejected") == []


def test_blocks_and_long_lines(make_run, monkeypatch):
    """Every request is read once, and an overlong line is rejected."""
    monkeypatch.setattr(json_lines, "PART_BYTES", 500)
    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 4096)
    monkeypatch.setattr(json_lines, "MAX_REJECTED", 2)
    lines = [{**OK, "request_id": number} for number in range(50)]
    lines[10:10] = ["x" * 10_000, "y", "z", "w"]
    folder = make_run("r", lines)
    rows = table(folder, "SELECT request_id FROM request ORDER BY ALL")
    assert rows == [(number,) for number in range(50)]
    rejected = table(folder, "SELECT byte_offset, length(text) FROM rejected ORDER BY ALL")
    before = sum(len(json.dumps(line)) + 1 for line in lines[:10])
    offsets = [before, before + 10_001, before + 10_003, before + 10_005]
    assert rejected == list(zip(offsets, (2048, 2, 2, 2), strict=True))


def test_a_load_of_thousands(make_run):
    times = list(range(0, 256_000_000, 1_000_000))
    load = [{**OK, "request_id": n, "token_ns": times, "steps": [[n, n]]} for n in range(3000)]
    folder = make_run("big", load)
    ((count, tokens, steps),) = table(
        folder,
        "SELECT count(*), sum(len(token_ns)), (SELECT count(*) FROM request_step) FROM request",
    )
    assert (count, tokens, steps) == (3000, 3000 * 256, 3000)


def test_requests_without_a_manifest_that_can_be_read(make_run, tmp_path):
    make_run("good")
    make_run("bad", [OK], stage=7)
    assert table(tmp_path, "SELECT run_id, request_id FROM request") == [("bad", 0)]
