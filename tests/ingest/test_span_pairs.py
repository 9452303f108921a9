"""Begin and end events become spans: nested per thread, by category and id for async events."""

import json
import random

import pytest

from tracekit.ingest.formats.span_pairs import NO_BEGIN, NO_END, TOO_LONG


def edge(phase, ts, name=None, **members):
    named = {} if name is None else {"name": name}
    return {"ph": phase, "pid": 1, "tid": 2, "ts": ts, **named, **members}


def edges(text):
    """Return the events of a text such as `B10 outer, E30`; `@3` is another thread."""
    found = []
    for part in text.split(", "):
        place, _, name = part.partition(" ")
        at, _, tid = place[1:].partition("@")
        found.append(edge(place[0], int(at), name or None, tid=int(tid or 2)))
    return found


def spans(loaded):
    """Return name, start, and end in µs of the paired events, in order of start."""
    return list(
        loaded.sql(
            "SELECT name, ts_ns // 1000, (ts_ns + dur_ns) // 1000 FROM event WHERE ph <> 'X' "
            "ORDER BY ts_ns, dur_ns DESC, event_id"
        )
    )


def unpaired(loaded):
    return list(loaded.sql("SELECT event_id, is_begin, reason FROM unpaired ORDER BY event_id"))


NESTED = "B10 outer, B20 inner, E30, B40 next, E45, E50, B12@3 elsewhere, E60@3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            NESTED, "outer 10 50, elsewhere 12 60, inner 20 30, next 40 45", id="nested per thread"
        ),
        pytest.param(
            "B10 step, B20 lost, B30 op, E40 op, E50 step, B60 step, E70 step",
            "step 10 50, lost 20 70, op 30 40, step 60 70",
            id="a lost end shifts no other where ends have names",
        ),
        pytest.param(
            "B10 long, B20 b, E30, E40 a",
            "long 10 40, b 20 30",
            id="names do not count where one end has none",
        ),
        pytest.param(
            "E30 a, E20 a, E40 a, B10 a, B20 a, B40 a",
            "a 10 20, a 20 30, a 40 40",
            id="out of order with equal times",
        ),
    ],
)
def test_spans_of_a_thread(load, text, expected):
    loaded = load(json.dumps(edges(text)))
    found = ", ".join(f"{name} {start} {end}" for name, start, end in spans(loaded))
    assert (found, loaded.rejected) == (expected, [])


def test_counts_of_paired_events(load):
    loaded = load(json.dumps(edges(NESTED)))
    assert unpaired(loaded) == []
    assert loaded.sql(
        "SELECT event_count, complete_count, span_end_count, unpaired_count, "
        "first_ts_ns, last_end_ns FROM trace"
    ) == [(8, 4, 4, 0, 10_000, 60_000)]
    assert loaded.sql("SELECT event_id, ph, tid FROM span_end ORDER BY event_id") == [
        (2, "E", 2),
        (4, "E", 2),
        (5, "E", 2),
        (7, "E", 3),
    ]


def test_times_beyond_the_precision_of_a_double(load):
    text = """[{"ph":"B","pid":1,"tid":2,"ts":1700000000123456.789,"name":"a"},
        {"ph":"E","pid":1,"tid":2,"ts":1700000000123457.002,"name":"a"},
        {"ph":"B","pid":1,"tid":3,"ts":1700000000123456.789,"name":"b","dur":5.5},
        {"ph":"E","pid":1,"tid":3,"ts":1700000000123457.001,"name":"b"}]"""
    assert load(text).sql("SELECT name, ts_ns, dur_ns FROM event ORDER BY name") == [
        ("a", 1_700_000_000_123_456_789, 213),
        ("b", 1_700_000_000_123_456_789, 212),
    ]


def test_arguments_of_the_end_are_added(load):
    events = [
        edge("B", 1, "a", args={"stream": 7, "x": 1, "y": {"p": 1}}),
        edge("E", 2, args={"x": 2, "correlation": 5}),
        edge("B", 3, "b"),
        edge("E", 4, args={"device": 3}),
        edge("B", 5, "c", args={"z": 1}, cname="good"),
        edge("E", 6, args={}),
    ]
    rows = load(json.dumps(events)).sql(
        "SELECT name, stream, correlation, device, args::VARCHAR, extra::VARCHAR FROM event "
        "ORDER BY name"
    )
    assert [(*row[:4], json.loads(row[4])) for row in rows] == [
        ("a", 7, 5, None, {"stream": 7, "x": 2, "y": {"p": 1}, "correlation": 5}),
        ("b", None, None, 3, {"device": 3}),
        ("c", None, None, None, {"z": 1}),
    ]
    assert json.loads(rows[2][5]) == {"cname": "good"}


def test_events_without_a_counterpart(load):
    events = edges("E5 before, B10 open, B20 closed, E30 closed")
    last = {"ph": "X", "pid": 9, "tid": 9, "ts": 90, "dur": 10, "name": "last"}
    loaded = load(json.dumps([*events, last]))
    assert spans(loaded) == [("open", 10, 100), ("closed", 20, 30)]
    assert unpaired(loaded) == [(0, False, NO_BEGIN), (1, True, NO_END)]
    assert loaded.sql("SELECT complete_count, unpaired_count FROM trace") == [(3, 2)]


def test_async_events_by_category_and_id(load):
    def work(phase, ts, name, key, **members):
        return edge(phase, ts, name, **({"cat": "net", "id": key} | members))

    events = [
        work("b", 10, "request", "0x1"), work("b", 15, "request", "0x2", tid=7),
        work("b", 20, "inner", "0x1", tid=5), work("n", 22, "mark", "0x1"),
        work("e", 25, "request", "0x2"), work("e", 30, "inner", "0x1", tid=6),
        work("b", 12, "request", "0x1", cat="disk"), work("e", 13, "request", "0x1", cat="disk"),
        work("e", 60, "request", "0x1"), edge("b", 70, "local", cat="net", id2={"local": "1"}),
        edge("b", 71, "local", cat="net", id2={"local": "1"}, pid=2),
        edge("e", 72, "local", cat="net", id2={"local": "1"}),
        edge("e", 74, "local", cat="net", id2={"local": "1"}, pid=2),
        work("e", 80, "never begun", "0x9"),
    ]  # fmt: skip
    loaded = load(json.dumps(events))
    assert spans(loaded) == [
        ("request", 10, 60),
        ("request", 12, 13),
        ("request", 15, 25),
        ("inner", 20, 30),
        ("local", 70, 72),
        ("local", 71, 74),
    ]
    assert unpaired(loaded) == [(13, False, NO_BEGIN)]
    assert loaded.sql("SELECT name, ts_ns FROM instant") == [("mark", 22_000)]


def test_more_than_eleven_days_are_no_span(load):
    loaded = load(json.dumps([edge("B", 0, "a"), edge("E", 10**12 + 1), edge("B", 5, "b", tid=9)]))
    assert spans(loaded) == [("a", 0, 0), ("b", 5, 10**12 + 1)]
    assert unpaired(loaded) == [(0, True, TOO_LONG), (2, True, NO_END)]


def test_unreadable_edges_are_rejected(load):
    events = [edge("B", "x", "a"), {"ph": "E", "pid": 1}, edge("B", 5, "b"), edge("E", 6)]
    loaded = load(json.dumps(events))
    assert [event_id for _, event_id, _ in loaded.rejected] == [0, 1]
    assert spans(loaded) == [("b", 5, 6)]


def test_public_samples(load, public_traces):
    """Files of other projects: IBM's flex driver and Chrome's own trace viewer."""
    folder = public_traces.parent / "odd_traces"
    if not folder.is_dir():
        pytest.skip(f"no traces in {folder}")

    def read(name):
        return load((folder / name).read_bytes(), name=name)

    loaded = read("aiu_flex_job4.json.gz")
    assert loaded.sql("SELECT count(*), sum(dur_ns), count(DISTINCT tid) FROM event") == [
        (17, 2_702_353, 1)
    ]
    assert unpaired(loaded) == loaded.rejected == []

    # As in Chrome, an end need not have the name of its begin.
    loaded = read("catapult_simple.json.gz")
    assert ("A long name that doesnt fit but is exceedingly informative", 826, 833) in spans(loaded)
    assert ("Asub with a name that wont fit", 827, 828) in spans(loaded)
    assert loaded.rejected

    loaded = read("catapult_nestable_async.json.gz")
    assert ("REQUEST_BAR", 10, 100) in spans(loaded)
    assert ("URL_REQUEST_DELEGATE_UNMATCHED_BEGIN", 80, 200) in spans(loaded)
    assert unpaired(loaded) == [(8, True, NO_END), (12, False, NO_BEGIN)]


def in_order(found):
    return sorted(found, key=lambda span: (span[1], -span[2], span[0]))


def tree(chance, start, end, depth):
    """Return nested spans with distinct starts and ends."""
    if depth == 0 or end - start < 8:
        return []
    middle = chance.randrange(start + 3, end - 3)
    name = chance.choice(["mm", "add", f"op{start}"])
    return [
        (name, start + 1, end - 1),
        *tree(chance, start + 1, middle, depth - 1),
        *tree(chance, middle, end - 1, depth - 1),
    ]


@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_in_the_file_does_not_matter(load, seed, has_names):
    chance = random.Random(seed)
    made = tree(chance, 0, 4000, 7)
    events = [edge("B", start, name) for name, start, _ in made]
    events += [edge("E", end, name if has_names else None) for name, _, end in made]
    chance.shuffle(events)
    assert in_order(spans(load(json.dumps(events)))) == in_order(made)
