"""The terminal table is aligned and safe, and never truncates digits."""

import json
import math

from tracekit.analysis.catalog import load_catalog
from tracekit.render import _grid
from tracekit.render._text import cell_width


def test_units_are_in_the_header(make_result, rendered):
    result = make_result(
        "x",
        {
            "rank": "INTEGER",
            "device": "VARCHAR",
            "idle_ns": "BIGINT",
            "total_bytes": "BIGINT",
            "bus_bytes_per_s": "DOUBLE",
            "wall_pct": "DOUBLE",
            "event_count": "BIGINT",
            "is_truncated": "BOOLEAN",
        },
        (0, "0", 113_440_000, 1_250_000_000, 2.4e10, 12.345, 12_345, True),
        (None, "cpu", 12_000, None, math.nan, 0.001, 0, False),
    )
    assert rendered(result, "table").splitlines() == [
        "rank  device  idle ms  total GB  bus GB/s  wall %  event_count  is_truncated",
        "────  ──────  ───────  ────────  ────────  ──────  ───────────  ────────────",
        "   0  0       113.440     1.250    24.000    12.3       12,345  true",
        "   –  cpu       0.012         –         –    <0.1            0  false",
    ]


def test_base_units_are_shown_as_they_are(make_result, rendered):
    result = make_result(
        "sql",
        {"ts_ns": "BIGINT", "x": "DOUBLE", "l": "INTEGER[]"},
        (2**63 - 1, 0.1, [1, 2]),
        (None, math.inf, None),
    )
    assert rendered(result, "table", units=False).splitlines() == [
        "              ts_ns    x  l",
        "───────────────────  ───  ──────",
        "9223372036854775807  0.1  [1, 2]",
        "                  –  inf  –",
    ]


def test_files_in_the_current_folder_have_relative_names(
    make_result, rendered, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = make_result(
        "x", {"file": "VARCHAR", "name": "VARCHAR"}, (f"{tmp_path}/run/a.json", f"{tmp_path}/b"),
        ("/elsewhere/a.json", ""), (None, None),
    )  # fmt: skip
    shown = rendered(result, "table").splitlines()[2:]
    assert [line.split() for line in shown] == [
        ["run/a.json", f"{tmp_path}/b"],
        ["/elsewhere/a.json"],
        ["–", "–"],
    ]
    assert f"{tmp_path}/run/a.json" in rendered(result, "csv")


def test_hostile_names_are_shown_as_text(make_result, rendered):
    names = ["\x1b[31mred", "[bold]k[/bold]", "a\nb", "\u202eabc", ":rocket:", "模型", "🚀"]
    result = make_result("x", {"name": "VARCHAR", "n": "INTEGER"}, *((n, 1) for n in names))
    assert rendered(result, "table").splitlines()[2:] == [
        "\\x1b[31mred     1",
        "[bold]k[/bold]  1",
        "a\\nb            1",
        "\\u202eabc       1",
        ":rocket:        1",
        "模型            1",
        "🚀              1",
    ]


def test_long_names_give_way_to_numbers(make_result, rendered):
    result = make_result(
        "x",
        {"name": "VARCHAR", "class": "VARCHAR", "kernel_ns": "BIGINT"},
        ("k" * 1_000_000, "gemm", 12_854_103_000),
        ("模" * 100, "norm", 1),
    )
    lines = rendered(result, "table", width=72).splitlines()
    assert all(cell_width(line) <= 72 for line in lines)
    assert lines[2].startswith("kkkk")
    assert lines[2].endswith("kkk  gemm   12,854.103")
    assert "…" in lines[3]
    assert lines[3].endswith("  norm        0.000")


def test_headers_break_before_names_are_cut(make_result, rendered):
    columns = {f"exposed_comm_{i}_ns": "BIGINT" for i in range(4)}
    name = "a_kernel_with_a_long_name"
    result = make_result("x", {"name": "VARCHAR", **columns}, (name, *([5_000_000] * 4)))
    assert rendered(result, "table", width=72).splitlines() == [
        "                           exposed_  exposed_  exposed_  exposed_",
        "                             comm_0    comm_1    comm_2    comm_3",
        "name                             ms        ms        ms        ms",
        "─────────────────────────  ────────  ────────  ────────  ────────",
        "a_kernel_with_a_long_name     5.000     5.000     5.000     5.000",
    ]


def test_rows_become_records_where_no_table_fits(make_result, rendered):
    columns = {f"a{i}_ns": "BIGINT" for i in range(12)}
    result = make_result("x", columns, tuple([123_456_789_000_000] * 12))
    lines = rendered(result, "table", width=72).splitlines()
    assert lines[0].startswith("─ row 1 ─")
    assert lines[1:3] == ["a0 ms   123,456,789.0", "a1 ms   123,456,789.0"]
    assert len(lines) == 13
    assert len(rendered(result, "table", width=72, wide=True).splitlines()) == 3


def test_sentences_are_wrapped(make_result, rendered):
    result = make_result(
        "health",
        {"metric": "VARCHAR", "meaning": "VARCHAR"},
        ("device_time_linked", "device time whose launch is in the trace, as a share of all of it"),
    )
    assert rendered(result, "table", width=72).splitlines()[2:] == [
        "device_time_linked  device time whose launch is in the trace, as a share",
        "                    of all of it",
    ]


def test_large_rates_and_operations_are_scaled(make_result, rendered):
    columns = {"flop_per_s": "DOUBLE", "flops": "BIGINT", "clock_hz": "BIGINT", "bytes": "BIGINT"}
    result = make_result(
        "x", columns, (610_545_297_545_330.8, 2_475_914_428_416, 1_410_000_000, 4_096)
    )
    assert rendered(result, "table").splitlines() == [
        "TFLOP/s  TFLOP  clock GHz     kB",
        "───────  ─────  ─────────  ─────",
        "610.545  2.476      1.410  4.096",
    ]
    assert rendered(result, "markdown").splitlines()[-1] == "| 610.545 | 2.476 | 1.410 | 4.096 |"
    assert "610545297545330.8" in rendered(result, "csv")
    assert "610545297545330.8" in rendered(result, "json")


def test_numbers_of_different_sizes_have_their_own_units(make_result, rendered):
    """In TFLOP/s the second would be 0.000, which it is not."""
    result = make_result("x", {"flop_per_s": "DOUBLE"}, (610.5e12,), (5.2e6,), (0.0,), (None,))
    assert rendered(result, "table").splitlines() == [
        "     flop_per_s",
        "───────────────",
        "610.500 TFLOP/s",
        "  5.200 MFLOP/s",
        "              0",
        "              –",
    ]


def test_a_value_has_the_unit_of_its_row(make_result, rendered):
    columns = {"metric": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR"}
    rows = [("a", 69.8956, "pct"), ("b", 4_186_000.0, "ns"), ("c", 1707.0, "count")]
    result = make_result("health", columns, *rows, ("d", None, "count"), ("e", 2e9, "bytes"))
    assert rendered(result, "table").splitlines() == [
        "metric     value",
        "──────  ────────",
        "a         69.9 %",
        "b       4.186 ms",
        "c          1,707",
        "d              –",
        "e       2.000 GB",
    ]


def test_many_rows_stay_a_table_with_a_note_on_omitted_columns(make_result, rendered):
    """Columns with one value are omitted first, then columns from the right."""
    columns = {"rank": "INTEGER", "phase": "VARCHAR", "why": "VARCHAR"}
    columns |= {f"a{n}_ns": "BIGINT" for n in range(8)} | {"done_pct": "DOUBLE"}
    rows = [
        (0, phase, None, *([n * 10**14] * 8), 12.5)
        for n, phase in enumerate(("one", "two"), start=1)
    ]
    result = make_result("x", columns, *rows)
    lines = rendered(result, "table", width=72).splitlines()
    assert lines[0].split() == ["phase", *" ".join(f"a{n} ms" for n in range(4)).split()]
    assert lines[2].split() == ["one", *["100,000,000.0"] * 4]
    assert lines[4:] == [
        "in every row: rank 0 · done 12.5 %",
        "without a value: why",
        "left out: a4_ns, a5_ns, a6_ns, a7_ns (--wide shows them, --format json",
        "  has all)",
    ]
    wide = rendered(result, "table", width=72, wide=True).splitlines()
    assert len(wide) == 4
    assert wide[0].split()[:3] == ["rank", "phase", "why"]
    assert wide[0].endswith("done %")


def test_reasons_without_space_are_below_the_table_once(make_result, rendered):
    columns = {f"a{n}_ns": "BIGINT" for n in range(5)} | {"reason": "VARCHAR"}
    rows = [(*[n * 10**14] * 5, why) for n, why in ((1, None), (2, "too small"), (3, "too small"))]
    result = make_result("x", columns, *rows)
    lines = rendered(result, "table", width=72).splitlines()
    assert "reason" not in lines[0]
    assert lines[5:] == ["reason: too small"]


def test_an_analysis_defines_which_columns_are_omitted_last(make_result, rendered):
    """Kernels keep their name, count, time and share; the shortest and longest go first."""
    spec = load_catalog().analysis("kernels")
    columns = {column.name: column.type for column in spec.columns}
    row = {name: 1.5 if kind == "DOUBLE" else 2 for name, kind in columns.items()}
    rows = [
        tuple(
            (
                row
                | {"name": "k" * n, "class": "c" * n, "device": str(n), "rank": n}
                | dict.fromkeys(("kernel_ns", "min_ns", "max_ns", "wall_ns"), n * 10**12)
                | {"wall_pct": float(n), "mean_ns": n + 0.5, "std_ns": n + 0.5}
            ).values()
        )
        for n in (1, 2)
    ]
    lines = rendered(make_result("kernels", columns, *rows), "table", width=72).splitlines()
    (gone,) = (line for line in lines if line.startswith("left out"))
    assert set(spec.keep).isdisjoint(gone.removeprefix("left out: ").split(" (")[0].split(", "))
    assert "std_ns" in gone


def test_the_layout_of_many_columns_is_not_tried_one_by_one(make_result, rendered, monkeypatch):
    tried = []
    layout = _grid._layout
    monkeypatch.setattr(_grid, "_layout", lambda *given: tried.append(1) or layout(*given))
    columns = {"class": "VARCHAR", **{f"c{n}_ns": "BIGINT" for n in range(2_000)}}
    result = make_result("x", columns, *((f"k{n}", *range(n, n + 2_000)) for n in range(2)))
    lines = rendered(result, "table", width=72).splitlines()
    assert lines[0].split()[:3] == ["class", "c0", "ms"]
    assert len(tried) < 20


PEAK_RATES = {
    "name": "VARCHAR",
    "measured_peak_bytes_per_s": "DOUBLE",
    "measured_peak_pct": "DOUBLE",
    "measured_peak_source": "VARCHAR",
    "measured_peak_reason": "VARCHAR",
}


def test_each_text_is_shown_once(make_result, rendered):
    result = make_result(
        "memcpy",
        PEAK_RATES,
        ("a", 2e9, 50.0, "bench", None),
        ("b", 2e9, 125.0, "bench", None),
        ("c", None, None, None, "no\x1bne"),
    )
    assert rendered(result, "table").splitlines() == [
        "name  measured_peak GB/s  measured_peak %",
        "────  ──────────────────  ───────────────",
        "a                  2.000             50.0",
        "b                  2.000            125.0",
        "c                      –                –",
        "measured: bench",
        "no measured peak: no\\x1bne",
    ]
    assert list(json.loads(rendered(result, "json"))[2].values())[-1] == "no\x1bne"
    assert list(json.loads(rendered(result, "json"))[2]) == list(PEAK_RATES)


def test_only_the_reason_is_shown_without_measured_peaks(make_result, rendered):
    result = make_result(
        "memcpy", PEAK_RATES, *(("a", None, None, None, f"r{i}") for i in range(7))
    )
    lines = rendered(result, "table").splitlines()
    assert lines[:3] == ["name", "────", "a"]
    assert lines[-1] == "no measured peak: r0; r1; r2; r3; r4; and 2 more"


def test_sql_gets_the_columns_that_it_asked_for(make_result, rendered):
    result = make_result("sql", PEAK_RATES, ("a", None, None, None, "why"))
    header, _, row = rendered(result, "table", units=False).splitlines()
    assert header.split() == list(PEAK_RATES)
    assert row.split() == ["a", "–", "–", "–", "why"]


def test_a_peak_of_other_threads_has_a_hint(make_result, rendered):
    why = "it was measured with 2 threads, the rank had 1 thread"
    result = make_result("mfu", PEAK_RATES, ("a", None, None, None, why))
    line = rendered(result, "table", width=140).splitlines()[-1]
    assert line == f"no measured peak: {why} (measure it: OMP_NUM_THREADS=1 tracekit bench gemm)"
    assert "OMP_NUM_THREADS" not in rendered(result, "json")
