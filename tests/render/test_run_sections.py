"""Sections of the breakdown and of comparisons: runs, requests, communication, noise."""

import pytest
from every_trace import MADE_UP
from given_rows import rows_of
from msgspec.structs import replace

import tracekit
from tracekit.render.sections import SECTIONS
from tracekit.render.sections.device_time import step_sentence

MS = 1_000_000


def result(name, *rows):
    return {name: rows_of(name, *rows)}


def texts(section, data, width=100, full=False):
    lines = [line.plain for line in SECTIONS[section].lines(data, width, full=full)]
    assert all(len(line) <= width for line in lines)
    return lines


def test_a_failed_run_has_a_reason():
    row = {"run": "r", "stage": "finetune", "outcome": "oom", "reason": "CUDA\x1b out of memory"}
    found = texts("run", result("run", {**row, "engine": "ddp", "notes": ["one", "two\n"]}))
    assert found == ["finetune  ddp", "oom: CUDA\\x1b out of memory", "note: one", "note: two\\n"]
    row = {"run": "r", "outcome": "unreadable", "reason": "no JSON"}
    assert texts("run", result("run", row)) == ["r  run.json cannot be used: no JSON"]


def test_all_notes_are_shown_completely():
    notes = [f"note {n} " + "changes how to read the figures " * 4 for n in range(5)]
    found = texts("run", result("run", {"run": "r", "outcome": "ok", "notes": notes}), 60)
    assert all(len(line) <= 60 for line in found)
    assert " ".join(" ".join(found).split()).endswith(
        " ".join(" ".join(f"note: {note}" for note in notes).split())
    )


def latencies():
    percentiles = {"p50_ns": 60 * MS, "p90_ns": 100 * MS, "p99_ns": 100 * MS, "max_ns": 100 * MS}
    e2e = {"metric": "e2e", "value_count": 4, "mean_ns": 67.75 * MS, **percentiles}
    none = {"metric": "ttft", "value_count": 0}
    waited = {"metric": "client_wait", "value_count": 4, "mean_ns": 0.0, "max_ns": 0}
    return result("latency", e2e, none, waited)


def test_latency_shows_the_known_metrics():
    assert texts("latency", latencies()) == [
        "Latency  mean ms  p50 ms  p90 ms  p99 ms  max ms",
        "  e2e       67.8    60.0   100.0   100.0   100.0  to the end of the answer",
    ]
    assert len(texts("latency", latencies(), full=True)) > 4


def test_the_distribution_is_drawn():
    points = [
        {"run": "s", "engine": "vllm", "metric": metric, "value_ns": ms * MS, "cumulative_pct": pct}
        for metric in ("e2e", "ttft")
        for ms, pct in ((10, 50.0), (100, 100.0))
    ]
    data = result("latency_cdf", *points)
    found = texts("latency_cdf", data)
    assert found[0] == "Latency e2e  share of the requests that were answered within"
    assert len(found) == 14
    assert sum(line.startswith("Latency") for line in texts("latency_cdf", data, full=True)) == 2


def test_a_query_draws_it_too(rendered, make_result):
    point = {"run": "s", "engine": "vllm", "metric": "e2e", "value_ns": MS, "cumulative_pct": 100.0}
    (table,) = result("latency_cdf", point).values()
    lines = rendered(table, "table").splitlines()
    assert lines[0].startswith("Latency e2e")
    assert lines[-1].split()[:3] == ["s", "vllm", "e2e"]
    assert "┤" not in rendered(table, "csv")
    empty = rendered(result("latency_cdf")["latency_cdf"], "table")
    assert empty.splitlines()[-1] == "no rows"


def test_a_window_without_steps_has_no_line():
    """The other ranks have one."""
    row = {"rank": 0, "device": "cpu", "first_step": 3, "last_step": 9, "dur_ns": 70 * MS}
    row |= {f"{kind}_step_count": 2 for kind in ("prefill", "mixed", "decode")}
    row |= {"max_running_count": 6, "decode_tokens_per_s": 400.0, "idle_pct": 12.5}
    none = {"rank": 1, "device": "cpu", "reason": "no steps"}
    shown = texts("serving_window", result("serving_window", row))
    assert len(shown) == 1
    assert texts("serving_window", result("serving_window", row, none)) == shown
    assert texts("serving_window", result("serving_window", none)) == []


def test_requests_of_which_none_succeeded():
    row = {"request_count": 3, "ok_count": 0}
    assert texts("throughput", result("throughput", row)) == ["Throughput  0 of 3 requests ok"]


def test_an_incomplete_load_shows_its_share():
    row = {"request_count": 5, "ok_count": 2, "outcome": "incomplete", "answered_pct": 40.0}
    assert texts("throughput", result("throughput", row)) == [
        "Throughput  2 of 5 requests ok · only 40.0 % of the load"
    ]
    row = {"metric": "e2e", "outcome": "incomplete", "mean_ns": 2.0 * MS, "max_ns": 3 * MS}
    assert texts("latency", result("latency", row))[0].startswith("Latency (load incomplete)")


def test_work_in_phases_of_serving(totalled):
    rows = [
        {"phase": phase, "task_group": group, "task": task, "wall_ns": ms * MS}
        for phase, group, task, ms in [
            ("prefill", "computation", "GEMM", 6),
            ("prefill", "rest", "idle", 2),
            ("decode", "computation", "other", 1),
            ("decode", "communication", "other", 3),
            ("decode", "computation", "RoPE", 0),
            ("other", "rest", "idle", 0),
        ]
    ]
    # A second device adds to the first.
    data = totalled(result("serving_modules", *rows, *rows[:2]))
    assert texts("serving_modules", data) == [
        "Serving    time ms",
        "  prefill     16.0  GEMM 75.0 % · idle 25.0 %",
        "  decode       4.0  other communication 75.0 % · other computation 25.0 %",
    ]


@pytest.mark.parametrize(
    "name", ["latency", "latency_cdf", "run", "serving_modules", "serving_window", "throughput"]
)
def test_a_section_without_data_has_no_lines(name):
    section = SECTIONS[name]
    assert section.lines({}, 100, full=False) == []
    assert section.lines(result(name), 100, full=True) == []


communication_lines = SECTIONS["communication"].lines


REASON = "its launch was not recorded"


def communication(*, device="0"):
    """Return two all-reduces on each of two ranks, and a collective of unknown size."""
    reduced = {"class": "comm_allreduce", "pg_name": "0", "call_count": 2, "wall_ns": MS}
    reduced |= {"sized_count": 2, "message_bytes": 4_000_000}
    rows = [
        {"rank": rank, "device": device, **reduced}
        | dict.fromkeys(("kernel_ns", "comm_ns", "sized_ns"), ms * MS)
        | {"algorithm_bytes_per_s": 4e9 / ms, "bus_bytes_per_s": 6e9 / ms}
        for rank, ms in ((0, 4), (1, 2))
    ]
    other = {"rank": 0, "device": device, "class": "comm_other", "call_count": 1, "reason": REASON}
    other |= dict.fromkeys(("kernel_ns", "comm_ns", "wall_ns"), MS // 2) | {"sized_count": 0}
    return rows_of("communication", *rows, other)


def test_one_line_per_class_and_group(totalled):
    windows = [{"rank": rank, "device": "0", "window_ns": 5 * MS} for rank in (0, 1)]
    data = totalled({"timeline": rows_of("timeline", *windows), "communication": communication()})
    texts = [line.plain for line in communication_lines(data, 140, full=False)]
    assert [" ".join(text.split()) for text in texts[1:3]] == [
        "allreduce (group 0) 4 6.00 2.00 66.7 8.00 2.00",
        f"other 1 0.50 0.50 0.0 – – {REASON}",
    ]
    assert all(len(text) <= 140 for text in texts)
    assert len(communication_lines(data, 120, full=True)) > 3


def test_on_a_cpu_a_note_explains_time_and_bandwidth(totalled):
    on_cpu = totalled({"communication": communication(device="cpu")})
    on_gpu = totalled({"communication": communication()})
    for full in (False, True):
        drawn = communication_lines(on_cpu, 120, full=full)
        assert any(line.plain.startswith("  on a CPU, ") for line in drawn)
        assert len(communication_lines(on_gpu, 120, full=full)) < len(drawn)
    assert all(len(line.plain) <= 60 for line in communication_lines(on_cpu, 60, full=False)[-1:])


@pytest.fixture
def lines_of(opened):
    """Return a function that draws a comparison of two steps with changed values."""
    trace = opened(MADE_UP)
    results = tracekit.compare(trace, trace).results()
    whole = {
        "per": "step",
        "sample": "step",
        "verdict": "slower",
        "base_unit_count": 8,
        "new_unit_count": 8,
    }
    slower = {"measure": "step", "verdict": "slower", "base_median_ns": 1e8, "new_median_ns": 2e8}
    slower |= {"difference_pct": 100.0, "low_pct": 50.0, "high_pct": 150.0}
    slower |= {"base_count": 8, "new_count": 8}

    def draw(more=None, **noise):
        data = {**results}
        changed = {"comparison": whole | (more or {}), "comparison_noise": slower | noise}
        for name, members in changed.items():
            (row,) = results[name].to_dicts()
            data[name] = replace(results[name], rows=[(*(row | members).values(),)])
        return [line for name in changed for line in texts(name, data)]

    return draw


@pytest.mark.parametrize(
    ("noise", "verdict"),
    [
        ({}, "slower"),
        ({"low_pct": -3.0}, "slower by ranks"),
        ({"low_pct": -3.0, "verdict": "inconclusive"}, "inconclusive"),
        ({"low_pct": None, "high_pct": None, "verdict": None}, "–"),
    ],
)
def test_the_deciding_measure_is_reported(lines_of, noise, verdict):
    (line,) = [one for one in lines_of(**noise) if one.startswith("  step  ")]
    assert line.rstrip().endswith(verdict)


@pytest.mark.parametrize(
    ("delta_ns", "note"),
    [
        (80, " "),
        (40, ": the recordings hide most of the difference "),
        (250, ": most of the recorded difference is the profiler's "),
    ],
)
def test_recordings_that_disagree_with_the_runs_are_reported(lines_of, delta_ns, note):
    run = {"run_base_ns": 100, "run_new_ns": 200, "run_delta_ns": 100, "run_delta_pct": 100.0}
    recorded = {"base_ns": 400, "new_ns": 400 + delta_ns, "delta_ns": delta_ns}
    basis = {"run_basis": "measured", "margin_pct": 1.0, "delta_pct": delta_ns / 4}
    text = " ".join(" ".join(lines_of(run | recorded | basis)).split())
    assert f"while profiling (mean){note}mean of 8" in text


def test_one_run_on_a_side_does_not_hold_the_noise_of_runs(lines_of):
    single_run_note = "one run on a side"
    assert any(single_run_note in line for line in lines_of())
    assert not any(single_run_note in line for line in lines_of(verdict="inconclusive"))
    assert not any(
        single_run_note in line for line in lines_of({"base_run_count": 3, "new_run_count": 3})
    )


@pytest.mark.parametrize(
    ("measure", "count", "text"),
    [
        ("step", 1, "    base: the first is warm-up: --skip 1"),
        ("step", 2, "    base: the first 2 are warm-up: --skip 2"),
        ("unprofiled step", 2, "    base: the first 2 are warm-up"),
    ],
)
def test_warm_up_is_reported(lines_of, measure, count, text):
    assert text in lines_of(measure=measure, base_warm_up_count=count, base_outliers=[0, 1][:count])


def test_dependent_measurements_are_reported(lines_of):
    assert any("0.62" in line for line in lines_of(correlation=0.62))
    assert not any("0.62" in line for line in lines_of())


def test_sides_with_little_in_common_are_reported(lines_of):
    assert any("only 2.0 % of device time" in line for line in lines_of({"matched_pct": 2.0}))
    assert not any("only" in line for line in lines_of())


STEP = {"step_count": 2, "mean_span_ns": 100.0, "step_work_ns": 70.0}
RECORDED = {"recorded_step_ns": 100, "work_ns": 70, "recorded_idle_pct": 30.0}
ESTIMATE = {"work_ns": 70, "unprofiled_step_ns": 76, "low_ns": 71, "high_ns": 89}


@pytest.mark.parametrize(
    ("recorded", "estimates", "expected"),
    [
        (
            {"idle_pct": 12.5, "unprofiled_step_ns": 80, "source": "given"},
            [ESTIMATE],
            "80 ns unpro",
        ),
        (
            {},
            [ESTIMATE],
            "76 ns unprofiled (estimated, 71 to 89 ns)  ·  mean 100 ns while profiling",
        ),
        ({}, [ESTIMATE, {"work_ns": 90, "reason": "no host"}], "unprofiled: no host"),
        ({}, [ESTIMATE | {"unprofiled_step_ns": None}], "71 to 89 ns unprofiled (estimated)"),
        ({}, [], "unprofiled: estimated by tracekit query unprofiled; idle 30.0 %"),
    ],
)
def test_the_sentence(recorded, estimates, expected):
    data = {
        "step_totals": rows_of("step_totals", STEP),
        "run_idle": rows_of("run_idle", RECORDED | recorded),
        "unprofiled": rows_of("unprofiled", *estimates),
    }
    assert expected in (step_sentence(data) or "")
