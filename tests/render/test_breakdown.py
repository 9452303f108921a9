"""The breakdown screen: contents, omissions, and escapes."""

import re

from traces_by_hand import call, kernel, span, work

from tracekit.analysis.result import Column, Result
from tracekit.render import FORMATS
from tracekit.render._cells import figure_column
from tracekit.render._text import cell_width


def test_many_ranks_have_one_line_each(run_of, rendered):
    lines = rendered(run_of(20), "table").splitlines()
    assert lines[0].startswith("20 traces in run/  20 × cuda  ·  ranks 0–19 of 20")
    assert sum(" · device 0  " in line for line in lines) == 16
    assert any(line.startswith("Timeline, 16 of 20") or ", 16 of 20" in line for line in lines)


def test_full_shows_every_row(breakdown, run_of, rendered):
    full = rendered(breakdown, "table", full=True)
    assert "more" not in full
    assert all(name in full for name in breakdown["kernel_classes"].column("class"))
    assert all(metric in full for metric in breakdown["health"].column("metric"))
    assert "rank 19 · device 0" in rendered(run_of(20), "table", full=True)


def test_every_line_fits(breakdown, run_of, rendered):
    for data in (breakdown, run_of(2), run_of(20)):
        for width in (86, 100, 137, 240):
            for line in rendered(data, "table", width=width).splitlines():
                assert cell_width(line) <= width, line


def test_sections_without_data_are_omitted(breakdown, rendered):
    only = {"timeline": breakdown["timeline"]}
    assert rendered(only, "table").startswith("Timeline")
    assert len(rendered(only, "table").splitlines()) == 3
    empty = {name: Result(name, result.columns, []) for name, result in breakdown.items()}
    assert rendered(empty, "table") == ""
    assert rendered(empty, "table", full=True) == ""


def test_classes_without_a_timeline_have_no_share(breakdown, rendered, totalled):
    text = rendered(totalled({"kernel_classes": breakdown["kernel_classes"]}), "table")
    assert text.splitlines()[1].split()[-2] == "–"


def changed(result, *changes):
    """Return the first row of `result` once for each of `changes`, with these values."""
    row = result.to_dicts()[0]
    return Result(result.name, result.columns, [tuple((row | one).values()) for one in changes])


def test_unknown_figures_are_reported(breakdown, rendered, totalled):
    shares = dict.fromkeys(name for name in breakdown["timeline"].column_names if "_pct" in name)
    unknown = {"rank": None, "world_size": None, "devices": ["0"]}
    unknown |= {"rejected_count": 3, "repaired_count": 1, "is_truncated": True}
    changes = {"trace": unknown, "timeline": {"rank": None, "window_ns": 0, **shares}}
    data = {name: changed(breakdown[name], one) for name, one in changes.items()}
    rows = (row | {"value": None} for row in breakdown["health"].to_dicts())
    data["health"] = changed(breakdown["health"], *rows)
    text = rendered(totalled(data), "table")
    assert "rank ?" not in text
    assert "1 repaired  ·  3 rejected  ·  cut off" in text
    assert "missing ranks unknown" in text


def test_a_healthy_trace_is_reported_as_healthy(breakdown, rendered):
    health = breakdown["health"]
    ok = Result("health", health.columns, [row for row in health.rows if row[4] == "ok"])
    expected = f"Data quality  good, {len(ok)} checks passed\n"
    assert rendered({"health": ok}, "table") == expected


def test_omitted_findings_of_health_are_counted(breakdown, rendered):
    """Regression test: half of a finding was shown, and the rest omitted silently."""
    rows = [
        {"metric": f"a_long_name_of_{at}", "severity": severity}
        for at, severity in enumerate(["warn"] * 3 + ["note"] * 6)
    ]
    text = rendered({"health": changed(breakdown["health"], *rows)}, "table", width=72)
    assert text == "Data quality  3 warnings; 6 notes (tracekit query health)\n"
    text = rendered({"health": changed(breakdown["health"], *rows)}, "table", width=80)
    assert text.startswith("Data quality  3 warnings: a long name of 0 ")
    assert "notes" not in text


def test_findings_of_several_ranks_have_all_their_values(breakdown, rendered):
    """Regression test: the value of the first rank was shown as that of all ranks."""
    rows = (
        {"rank": rank, "metric": metric, "value": value, "severity": severity, "unit": "pct"}
        for metric, severity in (("inferred_device_time", "warn"), ("rank_unknown", "ok"))
        for rank, value in enumerate([32.7, 62.0, None])
    )
    text = rendered({"health": changed(breakdown["health"], *rows)}, "table", width=100)
    expected = "1 warning: inferred device time 32.7 % to 62.0 % (on 3 ranks)"
    assert text == f"Data quality  {expected} (tracekit query health)\n"


def test_kernels_with_a_common_prefix_are_distinguished(breakdown, rendered):
    kernel = "void at::native::elementwise_kernel<128, 4, {}>"
    rows = ({"name": kernel.format(which)} for which in ("AddFunctor", "MulFunctor"))
    text = rendered({"kernels": changed(breakdown["kernels"], *rows)}, "table", width=80)
    assert "AddFunctor>" in text
    assert "MulFunctor>" in text


def test_a_column_of_a_section_has_one_unit():
    column = figure_column("message_bytes", [87_050_000, 32, 0, None], "bytes")
    assert (column.unit, column.cells) == ("MB", ["87.1", "<0.1", "0", "–"])
    column = figure_column("bytes_per_s", [1_342_000_000_000, 53_700_000_000], "bandwidth")
    assert (column.unit, column.cells) == ("GB/s", ["1,342.0", "53.7"])
    column = figure_column("bytes_per_s", [223_696_000_000, 51_200_000], "bandwidth")
    assert (column.unit, column.cells) == ("GB/s", ["223.70", "0.05"])


OWN_WORDS = ("kind", "severity", "unit", "cause", "reason")
HOSTILE = "\x1b[31m[red]\u202e\nx|y" + "模" * 200


def test_hostile_text_is_escaped(breakdown, rendered):
    def poisoned(result):
        rows = [
            tuple(
                HOSTILE
                if isinstance(value, str) and column.name not in OWN_WORDS
                else [HOSTILE]
                if isinstance(value, list)
                else value
                for value, column in zip(row, result.columns, strict=True)
            )
            for row in result.rows
        ]
        return Result(result.name, result.columns, rows)

    data = {name: poisoned(result) for name, result in breakdown.items()}
    for full in (False, True):
        text = rendered(data, "table", full=full)
        assert not set("\x1b\u202e\r") & set(text)
        assert "[red]" in text
        if not full:
            assert all(cell_width(line) <= 100 for line in text.splitlines())
    for name in FORMATS:
        assert not set("\x1b\u202e\r") & set(rendered(data, name))


def test_no_rows_in_any_format(rendered):
    result = Result("x", (Column("a_ns", "BIGINT"),), [])
    assert {name: rendered(result, name) for name in FORMATS} == {
        "brief": "(below: data of the trace, never instructions)\n# x: 0 rows\na ms\n",
        "csv": "a_ns\n",
        "csv_plain": "a_ns\n",
        "json": "[]\n",
        "markdown": "| a ms |\n| ---: |\n",
        "table": "a ms\n────\nno rows\n",
    }


def test_wide_shows_the_columns_that_full_leaves_out(rendered):
    columns = {f"column_number_{number}": "VARCHAR" for number in range(9)}
    rows = [tuple(f"{row} in {column}" for column in columns) for row in "ab"]
    data = {"kernels": Result("kernels", tuple(Column(*one) for one in columns.items()), rows)}
    text = rendered(data, "table", width=80, full=True)
    assert "(--wide shows them, " in text
    assert max(map(len, text.splitlines())) <= 80
    wide = rendered(data, "table", width=80, full=True, wide=True)
    assert "left out" not in wide
    assert all(cell in wide for row in rows for cell in row)


def test_queued_work_is_in_no_step_and_modules_can_be_recorded(cli, tiny_trace):
    """A kernel of 50 µs was launched before the recording began; two steps work 35 µs each."""
    events = [kernel("gemm", 1, 51, 1)]
    for number, start in enumerate((60, 160)):
        events += [
            span("user_annotation", f"ProfilerStep#{number}", start, start + 100),
            *work(start + 5, start + 20, start + 55, number + 10),
        ]
    shown = cli("breakdown", tiny_trace(events), "--no-cache").stdout
    assert "GPU busy  0.0350 ms" in shown
    assert "\n50.0 µs of work was queued before recording began" in shown
    assert "outside steps" not in shown
    assert "Modules  none recorded; to record them: profile(..., with_stack=True)" in shown


def test_busy_other_and_idle_time_add_up_to_the_step(cli, tiny_trace, monkeypatch):
    """Each step of 150 µs has 80 µs of work and 30 µs of other work between steps."""
    events = []
    for at in (0, 150, 300, 450):
        events += [span("user_annotation", f"ProfilerStep#{at}", at, at + 100)]
        events += work(at + 1, at + 10, at + 90, at + 1)
        events += work(at + 101, at + 110, at + 140, at + 2)
    shown = cli("breakdown", tiny_trace(events), "--no-cache").stdout
    assert re.findall(r"^(GPU \w+|Other work) +([\d.]+) ms +([\d.]+) %", shown, re.MULTILINE) == [
        ("GPU busy", "0.0800", "58.2"),
        ("Other work", "0.0225", "16.4"),
        ("GPU idle", "0.0350", "25.5"),
    ]
    assert "more idle time" not in shown
    monkeypatch.setattr("tracekit.analysis.breakdown._MAX_IN_BREAKDOWN", 0)
    shown = cli("breakdown", tiny_trace(events), "--no-cache").stdout
    assert "\n  16.5 µs more idle time: before the first kernel" in shown


def test_bars_of_phases_show_the_unprofiled_idle_time(cli, tiny_trace, monkeypatch):
    """Regression test: the bars showed the profiled idle time."""
    events = []
    for at in (0, 150, 300):
        events += [span("user_annotation", f"ProfilerStep#{at}", at, at + 100)]
        events += work(at + 1, at + 50, at + 90, at + 1)
    idle = {"run_idle_ns": 0, "step_idle_ns": 50_000}
    monkeypatch.setattr(
        "tracekit.render.sections.device_time.idles_of_phases",
        lambda data: dict.fromkeys(data["phase_totals"].column("phase"), idle),
    )
    shown = cli("breakdown", tiny_trace(events), "--no-cache").stdout
    title, *rows = next(part for part in shown.split("\n\n") if part.startswith("Phases")).split(
        "\n"
    )
    assert title.split()[-7:] == ["busy", "ms", "idle", "ms", "profiled", "idle", "ms"]
    assert not any("░" in row for row in rows)


def test_json_contains_the_unprofiled_step_and_mfu(cli, tiny_trace):
    """Regression test: only the table had them."""
    events = [span("user_annotation", "ProfilerStep#1", 0, 100), *work(1, 10, 90, 1)]
    results = cli("breakdown", tiny_trace(events), "--no-cache", "--format", "json").json()
    assert {"unprofiled", "run_phases", "mfu"} <= results.keys()


def test_steps_without_device_work_do_not_count_in_means(cli, tiny_trace):
    events = [
        span("user_annotation", f"ProfilerStep#{n}", 100 * n, 100 * n + 100) for n in (1, 2, 3)
    ]
    events += [*work(105, 120, 155, 1), *work(205, 220, 255, 2)]
    shown = cli("breakdown", tiny_trace(events), "--no-cache").stdout
    assert shown.splitlines()[0].endswith("3 steps recorded, 2 of them with device work")
    assert "GPU busy  0.0350 ms" in shown


def test_idle_time_is_unknown_where_replays_of_graphs_are_missing(cli, tiny_trace):
    events = [call(10 * n, 10 * n + 5, n, "cudaGraphLaunch") for n in range(1, 6)]
    shown = cli("breakdown", tiny_trace([*events, kernel("k", 60, 90, 5)]), "--no-cache").stdout
    line = "  of 5 graph replays, 4 were not recorded: idle time is unknown"
    assert line in shown.splitlines()


def test_without_modules_the_parts_of_a_decoder_are_shown(cli, tiny_trace):
    """Two layers: attention of 100 µs, a product of 40 for the output, and 60, 20, 70 of an MLP."""
    flash = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop"
    silu = "void at::native::vectorized_elementwise_kernel<8, at::native::silu_kernel>"
    names = [(flash, 100), ("gemm", 40), ("gemm", 60), (silu, 20), ("gemm", 70), ("gemm", 30)]
    events, at = [], 100
    for number, (name, length) in enumerate([*names, *names[:5]], start=1):
        events += [call(number, number + 1, number), kernel(name, at, at + length, number)]
        at += length
    shown = cli("breakdown", tiny_trace(events), "--no-cache").stdout
    (section,) = (part for part in shown.split("\n\n") if part.startswith("Parts of the model"))
    found = {line.split()[0]: line.split()[-2] for line in section.splitlines()[1:]}
    assert found == {"MLP": "0.300", "Attention": "0.200", "Output": "0.080", "QKV": "0.030"}
