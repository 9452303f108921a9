"""Charts: valid Vega-Lite of the rows of analyses, drawn without a browser."""

import functools
import json
import re
import sys

import pytest
from every_trace import REPO
from msgspec.structs import replace
from run_of_ranks import write_ranks
from traces_by_hand import kernel, memory, span, work

import tracekit
from tracekit import palette
from tracekit.analysis.catalog import load_catalog
from tracekit.errors import QueryError, StoreError, TracekitError, UsageError
from tracekit.plot import PARAMS, chart_names, find_chart

TRACES = {
    "step": REPO / "docs" / "samples" / "made_up_step.json",
    "memory": REPO / "docs" / "samples" / "made_up_memory.json",
    "training": REPO / "sample_traces" / "pretrain_R+Z3",
    "serving": REPO / "sample_traces" / "serve_vllm",
}
SMALL = ("step", "memory")
_COMPLETE = pytest.mark.nightly("draws complete runs")
by_kind = pytest.mark.parametrize(
    "kind", [one if one in SMALL else pytest.param(one, marks=_COMPLETE) for one in TRACES]
)


def charts(trace):
    found = {}
    for name in chart_names():
        try:
            found[name] = trace.plot(name)
        except TracekitError:
            continue
    return found


@pytest.fixture(scope="module")
def charts_of(opened):
    """Return a function that gives the charts of the trace at a path, drawn once."""
    return functools.cache(lambda path: charts(opened(path)))


@_COMPLETE
@pytest.mark.nightly("asks every sample")
def test_every_chart_is_one_of_some_sample(charts_of):
    drawn = {name for path in TRACES.values() for name in charts_of(path)}
    of_runs = {"bench_gemm", "bench_memcpy", "bench_collectives", "methods", "method_memory"}
    of_runs |= {"scaling", "step_spread", "rank_groups", "rank_distribution"}
    # Chart queue_cdf is drawn where its analysis is tested: here no request has its first step.
    assert set(chart_names()) - drawn <= {"memcpy", "queue_cdf", *of_runs}


@pytest.mark.parametrize(
    "kind", ["memory", *(pytest.param(one, marks=_COMPLETE) for one in TRACES if one != "memory")]
)
@pytest.mark.nightly("draws with another library")
def test_altair_and_vl_convert_accept_charts(kind, charts_of):
    pytest.importorskip("altair", reason="altair is not installed")
    pytest.importorskip("vl_convert", reason="vl-convert is not installed")
    for name, chart in charts_of(TRACES[kind]).items():
        chart.to_altair()
        svg = chart.to_svg()
        assert svg.startswith("<svg"), name
        assert chart.title in svg.replace("&#39;", "'").replace("&apos;", "'"), name


def test_a_chart_contains_the_rows_of_its_analyses(answered, opened, charts_of):
    answers = answered(TRACES["step"])

    def exact(name):
        if name in PARAMS:
            return opened(TRACES["step"]).query(name, **PARAMS[name])
        return answers(name)

    for name, chart in charts_of(TRACES["step"]).items():
        needs = find_chart(name).needs
        assert set(chart.data) <= set(needs), name
        assert chart.spec["data"]["name"] in needs, name
        for need, result in chart.data.items():
            assert result.rows == exact(need).rows
            assert need in load_catalog().analyses
        sets = json.loads(json.dumps(chart.to_dict()))["datasets"]
        for need, rows in sets.items():
            known = exact(need).to_dicts()
            numbers = [{k: v for k, v in r.items() if isinstance(v, int)} for r in known]
            assert all(row.items() >= some.items() for row, some in zip(rows, numbers, strict=True))


def test_many_ranks_are_groups_and_spreads_and_no_list_of_lines(opened, tmp_path):
    def events(rank):
        length = 130 if rank == 9 else 100
        return [
            event
            for step in (0, 1)
            for event in (
                span("user_annotation", f"ProfilerStep#{step}", 200 * step, 200 * step + length),
                *work(200 * step, 200 * step + 5, 200 * step + length - rank, step + 1),
            )
        ]

    paths = write_ranks(tmp_path, 24, events=events)
    with tracekit.open(*paths, cache=False) as trace:
        drawn = charts(trace)
        spread = trace.query("step_spread").to_dicts()
        steps = [row for row in trace.query("steps").to_dicts() if row["step"] is not None]
    assert {"rank_groups", "rank_distribution", "step_spread"} <= set(drawn)
    assert "steps" not in drawn
    for row in spread:
        spans = sorted(one["span_ns"] for one in steps if one["step"] == row["step"])
        assert row["rank_count"] == len(spans) == 24
        assert (row["min_ns"], row["max_ns"]) == (spans[0], spans[-1])
        assert row["median_ns"] == spans[11]
    with pytest.raises(QueryError, match="no data for the chart step_spread"):
        opened(TRACES["step"]).plot.step_spread()


def fields(spec):
    """Return the fields of rows that a chart uses, without computed ones."""
    found = set()
    made = set()

    def walk(part):
        if isinstance(part, list):
            for one in part:
                walk(one)
        if not isinstance(part, dict):
            return
        if isinstance(part.get("field"), str):
            found.add(part["field"])
        names = part.get("as", [])
        made.update([names] if isinstance(names, str) else names)
        found.update(part.get("fold", []))
        found.update(re.findall(r"datum\.(\w+)", part.get("calculate", "")))
        for one in part.values():
            walk(one)

    walk(spec)
    return found - made


@by_kind
def test_charts_name_existing_columns(charts_of, kind):
    for name, chart in charts_of(TRACES[kind]).items():
        columns = {c for result in chart.data.values() for c in result.column_names}
        assert fields(dict(chart.spec)) <= columns, name


def test_copies_have_a_chart(tiny_trace):
    copied = [kernel("Memcpy HtoD (Pinned -> Device)", 0, 5, bytes=64), kernel("k", 9, 12)]
    with tracekit.open(tiny_trace(copied), cache=False) as trace:
        chart = trace.plot.memcpy()
    (copies,) = chart.data.values()
    assert fields(dict(chart.spec)) <= set(copies.column_names)


@by_kind
def test_every_numeric_axis_has_a_unit_or_is_unitless(charts_of, kind):
    bare = {"step", "depth", "mean_length", "max_length", "token_count", "intensity_flop_per_byte"}
    bare |= {"running_count", "m", "world_size", "speedup", "decode_request_count"}
    for name, chart in charts_of(TRACES[kind]).items():
        for layer in chart.spec.get("layer", [chart.spec]):
            for channel in ("x", "y"):
                axis = layer.get("encoding", {}).get(channel)
                if axis is None or axis["type"] != "quantitative":
                    continue
                title = axis["axis"]["title"]
                assert title, name
                assert axis["field"] in bare or ", " in title, (name, title)


def test_charts_are_methods_with_names_and_a_hint(opened):
    trace = opened(TRACES["step"])
    assert dir(trace.plot) == sorted([*chart_names(), "pivot"])
    assert trace.plot.timeline().name == "timeline"
    with pytest.raises(QueryError, match="no chart named 'timelin'") as raised:
        trace.plot("timelin")
    assert raised.value.hint == "did you mean timeline?"
    with pytest.raises(AttributeError, match="no chart named 'pie'"):
        _ = trace.plot.pie
    with pytest.raises(QueryError, match="no data for the chart memory"):
        trace.plot.memory()


def test_a_chart_is_saved_in_the_form_of_its_name(opened, tmp_path):
    pytest.importorskip("vl_convert", reason="vl-convert is not installed")
    chart = opened(TRACES["step"]).plot.phases()
    for name, begin in (("a.svg", b"<svg"), ("a.png", b"\x89PNG"), ("a.json", b"{")):
        chart.save(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin)
    with pytest.raises(UsageError, match=r"saved as \.svg, \.png, or \.json"):
        chart.save(tmp_path / "a.gif")
    with pytest.raises(StoreError, match="No such file"):
        chart.save(tmp_path / "none" / "a.json")
    shown = chart._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg")
    assert chart._repr_html_().startswith("<svg")


def test_without_the_extra_a_chart_has_an_install_hint(opened, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    monkeypatch.setitem(sys.modules, "altair", None)
    chart = opened(TRACES["step"]).plot.phases()
    for do in (chart.to_svg, chart.to_png, chart.to_altair):
        with pytest.raises(UsageError, match="is not installed") as raised:
            do()
        assert raised.value.hint == "install it with: pip install '.[plot]'"
    chart.save(tmp_path / "a.json")
    shown = chart._repr_mimebundle_()
    assert shown["application/vnd.vegalite.v6+json"]["datasets"]
    assert ".[plot]" in shown["text/plain"]
    assert chart._repr_html_().startswith("<table")


def test_colours_are_distinct_on_both_pages_and_named_for_terminals():
    from rich.color import Color

    for kinds in (palette.KIND, palette.PHASE):
        assert all(Color.parse(colour.terminal) for colour in kinds.values())
    for page in ("light", "dark"):
        shown = [getattr(colour, page) for colour in palette.ALL]
        assert len(set(shown)) == len(palette.ALL)
        assert all(len(hex_code) == 7 and hex_code.startswith("#") for hex_code in shown)
    many = palette.series([str(number) for number in range(25)])
    assert many["0"] == many["10"] == many["20"]


def contrast(first, second):
    """Contrast of two colours as WCAG 2.2 defines it, 1 to 21."""

    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_marks_contrast_with_the_page():
    for colour in palette.ALL:
        assert contrast(colour.light, "#ffffff") >= 2, colour
        assert contrast(colour.dark, "#15171a") >= 3, colour


def test_a_class_has_its_colour_wherever_it_is_drawn():
    alone, beside = palette.classes(["gemm"]), palette.classes(["softmax", "my_class", "gemm"])
    assert alone["gemm"] == beside["gemm"] != beside["softmax"]
    assert beside["my_class"] == palette.classes(["my_class"])["my_class"]
    by_class = palette.classes(["comm_allreduce", "memcpy_h2d", "other"])
    assert [*by_class.values()] == [palette.KIND["comm"], palette.KIND["memcpy"], palette.GREY]


def test_labels_contrast_with_their_marks():
    for colour in palette.ALL:
        for shown in (colour.light, colour.dark):
            text = palette.text_on(shown)
            other = {"#000000": "#ffffff", "#ffffff": "#000000"}[text]
            assert contrast(text, shown) >= max(4.5, contrast(other, shown)), shown


def without(result, column, named):
    """Return a result with NULL in `column` of the first row where `named` is not NULL."""
    place, has = (result.column_names.index(name) for name in (column, named))
    at = next(at for at, row in enumerate(result.rows) if row[has] is not None)
    row = result.rows[at]
    rows = [*result.rows]
    rows[at] = (*row[:place], None, *row[place + 1 :])
    return replace(result, rows=rows)


def test_ops_of_known_size_whose_types_are_not_recorded(opened):
    trace = opened(REPO / "docs" / "samples" / "made_up_step.json")
    data = {name: trace.query(name) for name in ("compute_memory", "roofline")}
    data["compute_memory"] = without(data["compute_memory"], "dtype", "flop_per_s")
    assert find_chart("gemms").chart(data) is not None


def test_optional_members_of_a_manifest():
    with tracekit.open(REPO / "sample_traces", traces=False, cache=False) as runs:
        methods = runs.query("methods")
    for name in ("methods", "method_memory"):
        for column in ("stage", "model", "method", "engine", "std_tokens_per_s"):
            rows = without(methods, column, "mean_tokens_per_s")
            assert find_chart(name).chart({"methods": rows}) is not None, (name, column)


def test_memory_of_a_trace_without_an_accelerator_is_drawn_without_a_reserve(tiny_trace):
    def allocation(at, total, device_type, reserved):
        place = {"Device Type": device_type, "Device Id": device_type - 1, "Bytes": 64}
        return memory(at, **place, **{"Total Allocated": total, "Total Reserved": reserved})

    host = [span("cpu_op", "x", 0, 9), allocation(1, 64, 0, 0), allocation(5, 128, 0, 0)]
    with tracekit.open(tiny_trace(host), cache=False) as trace:
        chart = trace.plot.memory()
        assert [row["device"] for row in trace.query("memory_over_time").to_dicts()] == ["cpu"] * 2
    (layer,) = chart.spec["layer"]
    assert layer["encoding"]["y"]["field"] == "allocated_bytes"
    assert chart.title == "Memory of the host over time"
    both = [*host, kernel("k", 2, 8), allocation(6, 256, 1, 512)]
    with tracekit.open(tiny_trace(both, name="both.json"), cache=False) as trace:
        chart = trace.plot.memory()
    drawn = [layer["encoding"]["y"]["field"] for layer in chart.spec["layer"]]
    assert drawn == ["allocated_bytes", "reserved_bytes"]
    assert chart.spec["encoding"]["color"]["scale"]["domain"] == ["device 0"]
