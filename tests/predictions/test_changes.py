"""Changes that need further runs or leave a timeline; others are in tests/cases/changes.case."""

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


def test_batches_of_workers_are_in_the_timeline(tmp_path, tiny_trace):
    """Workers began before the window, which the first batch opens."""
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events = (annotation(loader, 0, 2000), op("aten::add", 1200, 1800), op("aten::mm", 2000, 3000))
    path = tiny_trace(steps(*events, length=3000))
    with tracekit.open(path, cache=False) as trace:
        trace.predict("loading workers=2", timeline=tmp_path / "predicted.json", is_recorded=True)
    with tracekit.open(tmp_path / "predicted.json", cache=False) as trace:
        ((begin_ns,),) = trace.sql("SELECT min(ts_ns) FROM event WHERE category = 'cpu_op'")
        batches = "SELECT name, ts_ns, dur_ns FROM event WHERE name LIKE 'batch%' ORDER BY ts_ns"
        assert trace.sql(batches).rows[:2] == [
            (f"batch of worker {n}", begin_ns - (3 - n) * 1_000_000, 2_000_000) for n in (1, 2)
        ]


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
            op("aten::gelu", 0, length, **{"Sequence number": 7}),
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


def test_changes_that_are_not_texts_are_refused(tiny_trace):
    with tracekit.open(tiny_trace(work(0, 5, 100, 1)), cache=False) as trace:
        for changes in ((), (["host x0.5"],), (None,)):
            with pytest.raises(UsageError):
                trace.predict(*changes)
