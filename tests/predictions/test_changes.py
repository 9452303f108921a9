"""Changes that need further runs or leave a timeline; others are in tests/cases/changes.case."""

import json

import pytest
from traces_by_hand import span, work

import tracekit
from tracekit.errors import QueryError, UsageError
from tracekit.prediction.changes import EXAMPLES, KEYWORDS, parse_change

STEPS = 4


def op(name, start, end, **args):
    return span("cpu_op", name, start, end, **args)


def annotation(name, start, end, tid=1):
    return span("user_annotation", name, start, end, tid)


def steps(*events, length):
    """Return steps that all hold these, one after the other."""
    found = []
    for number in range(STEPS):
        begin = number * length
        found.append(annotation(f"ProfilerStep#{number}", begin, begin + length))
        found += [event | {"ts": event["ts"] + begin} for event in events]
    return found


NUMBER = {"Sequence number": 7}
# GEMMs of 300 and 200 µs with a function of 100 in between and 50 of Python; backward 1,000.
LAYERED = steps(
    annotation("tk/phase/forward", 0, 700),
    annotation("tk/module/forward/layers.0#Layer", 0, 700),
    op("aten::mm", 0, 300, **NUMBER),
    op("aten::gelu", 350, 450),
    op("aten::mm", 450, 650),
    op("aten::add", 650, 700),
    annotation("tk/phase/backward", 700, 1700),
    op("autograd::engine::evaluate_function: Mm", 700, 1700, **NUMBER, **{"Fwd thread id": 1}),
    op("aten::mm", 700, 1700),
    length=1700,
)
LOADED = steps(
    annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 2000),
    op("aten::add", 1200, 1800),
    op("aten::mm", 2000, 3000),
    length=3000,
)


@pytest.mark.parametrize(
    ("events", "change", "added"),
    [
        # Product and function with the 50 µs of Python between, before the backward pass.
        (
            LAYERED,
            "recompute on module=layers.*",
            [
                ("aten::mm", 700, 300),
                ("tk/module/recompute/layers.0#Layer", 700, 450),
                ("aten::gelu", 1050, 100),
            ],
        ),
        # Each op takes twice as long for itself and a copy after it.
        (
            LAYERED,
            "accumulate x2",
            [("aten::mm", 300, 300), ("aten::gelu", 800, 100), ("aten::mm", 1100, 200)],
        ),
        # Workers began before the window, which the first batch opens.
        (
            LOADED,
            "loading workers=2",
            [("batch of worker 1", -2000, 2000), ("batch of worker 2", -1000, 2000)],
        ),
    ],
    ids=["recompute", "accumulate", "loading"],
)
@pytest.mark.nightly("simulates three runs")
def test_added_work_is_in_the_timeline(tmp_path, tiny_trace, events, change, added):
    timeline = tmp_path / "predicted.json"
    with tracekit.open(tiny_trace(events, "recorded.json"), cache=False) as trace:
        found = trace.predict(change, timeline=timeline, is_recorded=True)
    if change.startswith("recompute"):
        # The interval has the time of checkpointing itself.
        assert found.high_ns >= found.predicted_ns + STEPS * 1_000_000
    drawn = json.loads(timeline.read_text("utf-8"))["traceEvents"]
    start = min(event["ts"] for event in drawn if event["cat"] == "cpu_op")
    written = sorted(
        (event["ts"] - start, event["name"], event["dur"])
        for event in drawn
        if event["args"].get("predicted")
    )
    assert [(name, ts, dur) for ts, name, dur in written[: len(added)]] == added
    with tracekit.open(timeline, cache=False) as trace:
        (row,) = trace.query("timeline").to_dicts()
        assert row["window_ns"] == found.predicted_ns
        if change.startswith("recompute"):
            (again,) = trace.sql(
                "SELECT sum(a.dur_ns), any_value(m.path) FROM attributed_events AS a "
                "LEFT JOIN module AS m USING (trace_id, module_id) WHERE phase = 'recompute'"
            )
            assert again == (4 * 400_000, "layers.0")


@pytest.mark.parametrize(
    ("change", "step"),
    [
        # 100 µs, plus 50 per batch element; GEMMs of 200, which do not grow.
        ("batch=8 of=2,4", 500 + 200),
        ("batch=3 of=2,4", 250 + 200),
        # From 200 to 700 µs: in the square of the length.
        ("sequence=6 of=2,4", 200 + 500 / 12 * 32 + 200),
    ],
)
@pytest.mark.nightly("simulates two runs for each change")
def test_sizes_of_two_runs(tiny_trace, change, step):
    runs = []
    for number, length in enumerate((200, 700 if change.startswith("sequence") else 300)):
        events = steps(
            annotation("tk/phase/forward", 0, length),
            annotation("tk/module/forward/layers.0#Layer", 0, length),
            op("aten::gelu", 0, length, **NUMBER),
            op("aten::mm", length, length + 200),
            length=length + 200,
        )
        runs.append(tiny_trace(events, f"{number}.json"))
    with tracekit.open(runs[0], cache=False) as one, tracekit.open(runs[1], cache=False) as other:
        found = one.predict(change, further=[other], is_recorded=True)
        assert found.predicted_ns == pytest.approx(1000 * STEPS * step, rel=1e-6)
        for asked, further, error in (
            ("batch=8 of=2,4", [], QueryError),
            ("batch=9 of=2,4", [other], QueryError),
            ("batch=2 of=4,4", [other], QueryError),
            ("batch=8 of=2,4,8", [other], UsageError),
            ("batch=8", [other], UsageError),
        ):
            with pytest.raises(error):
                one.predict(asked, further=further)


# An all-reduce of 200 µs, launched long before.
REDUCTION = work(
    20, 100, 300, 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    **{"Collective name": "allreduce", "dtype": "Float", "Group size": 2},
    **{"In msg nelems": 1000, "Out msg nelems": 1000},
)  # fmt: skip


@pytest.fixture
def measured(make_run):
    """Return a run of bench: 50 µs and 0.1 ns a byte for two ranks, 200 and 0.3 for eight."""
    known = {"family": "collective", "op": "all_reduce", "outcome": "ok", "backend": "nccl"}
    known |= {"device": "cuda:0", "device_name": "X"}
    sizes = [
        {"group_size": ranks, "message_bytes": size, "median_ns": 1000 * latency + size * ns}
        for ranks, latency, ns in ((2, 50, 0.1), (8, 200, 0.3))
        for size in (1000, 2000, 1_000_000)
    ]
    points = [{"bench_id": number, **known, **size} for number, size in enumerate(sizes)]
    return make_run("bench", benchmarks=points, stage="bench")


def test_links_as_bench_measured_them(tiny_trace, measured):
    path = tiny_trace(REDUCTION)
    with (
        tracekit.open(path, cache=False) as trace,
        tracekit.open(measured, traces=False, cache=False) as bench,
    ):
        for change, window in (
            # Of 200 µs 50 are latency, though all messages have one size.
            ("bandwidth x2", 50 + 75),
            ("latency x3", 150 + 150),
            ("group size=8", 200 + 3 * 150),
            # In a ring of four ranks 6 messages come in a row, not 2, and 3/2 of the size, not 1.
            ("group size=4", 150 + 1.5 * 150),
        ):
            found = trace.predict(change, further=[bench], is_recorded=True)
            assert found.predicted_ns == pytest.approx(1000 * window, rel=0.02), change


def test_bench_is_of_the_same_device(tiny_trace, cli, measured):
    for name, code in (("X", 0), ("Y", 5)):
        properties = [{"id": 0, "name": name}]
        path = tiny_trace(REDUCTION, deviceProperties=properties)
        done = cli("predict", path, "--change", "latency x2", "--peak-rates", measured)
        assert done.exit_code == code


def test_every_kind_of_change_has_an_example(cli):
    """Without a change all kinds are listed."""
    keywords = {parse_change(example).keyword for example in EXAMPLES} - {"size"}
    assert keywords == {None, *KEYWORDS}
    done = cli("predict", "trace.json")
    assert (done.exit_code, done.stdout) == (2, "")
    for example in EXAMPLES:
        assert f"\n{example}  " in f"\n{done.stderr}"
