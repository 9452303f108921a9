"""Names and arguments with any content are written unchanged."""

import json

import pytest
from perfetto_engine import Engine, engine_folder
from perfetto_read_back import check_read_back, exported
from recorded_scene import record
from traces_by_hand import span

import tracekit
from tracekit.export.perfetto import export_perfetto
from tracekit.export.selection import Selection

_OTHER_TIME = pytest.mark.nightly("one time is in the gate")


def test_a_counter_may_have_any_name(of_hostile):
    scene, _ = record(of_hostile)
    found = {place[-2]: values[0][1] for place, values in scene.numbers.items()}
    members = {'w"x': 3, "$.a": 4, "b\\": 5, "*": 6, "is text": 7.5}
    assert {name: value for name, value in found.items() if name.startswith("ours")} == {
        f"ours: {name}": value for name, value in members.items()
    }


def test_perfetto_reads_hostile_text(of_hostile, tmp_path):
    engine_folder()
    check_read_back(of_hostile, tmp_path / "x.pftrace")


@pytest.mark.parametrize("from_us", [-4 * 10**14, pytest.param(4 * 10**15 - 2, marks=_OTHER_TIME)])
def test_times_as_early_and_as_late_as_can_be(tiny_trace, tmp_path, from_us):
    engine_folder()
    spans = [(from_us, from_us + 1), (from_us + 1, from_us + 2), (from_us + 2, from_us + 2)]
    file = tiny_trace([span("cpu_op", f"op {at}", *times) for at, times in enumerate(spans)])
    with tracekit.open(file, cache=False) as trace:
        assert trace.sql("SELECT count(*) FROM event").rows == [(len(spans),)]
        check_read_back(trace, tmp_path / "x.pftrace")
        assert export_perfetto(trace, len).event_count == len(spans)


@pytest.mark.parametrize("base_time_ns", [2**62 + 1, pytest.param(-(2**63), marks=_OTHER_TIME)])
def test_an_impossible_base_time_is_omitted(tmp_path, base_time_ns):
    engine_folder()
    file = tmp_path / "trace.json"
    events = [span("cpu_op", "one", 1_000_000_000, 1_000_000_001), span("cpu_op", "two", -5, 4)]
    file.write_text(json.dumps({"baseTimeNanoseconds": base_time_ns, "traceEvents": events}))
    with tracekit.open(file, cache=False) as trace:
        assert trace.sql("SELECT base_time_ns FROM trace").rows == [(base_time_ns,)]
        done = export_perfetto(trace, len)
        with Engine(exported(trace, tmp_path / "x.pftrace")) as engine:
            assert engine.problems() == {}
            times = engine.rows("SELECT ts, dur FROM slice ORDER BY 1")
    assert times == [(0, 9_000), (1_000_000_005_000, 1_000)]
    assert done.notes[0] == "trace.json: its base time is impossible, and is ignored"


def test_parts_beyond_all_times_are_empty(tiny_trace):
    with tracekit.open(tiny_trace([span("cpu_op", "one", 1, 2)]), cache=False) as trace:
        for chosen in (Selection(from_ns=10**30), Selection(to_ns=-(10**30))):
            assert export_perfetto(trace, len, chosen).event_count == 0
        assert export_perfetto(trace, len, Selection(to_ns=10**30)).event_count == 1
