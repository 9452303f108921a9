"""Reading a hostile file takes time in proportion to its size.

Each attack is read at some size and at 16 times that size. A linear reader needs 16 times the
time, a quadratic one 256 times; the limit is 64. Only CPU time counts, and a short first reading
counts as 0.1 s, so that neither a busy machine nor a coarse clock decides.
"""

import json
import time

import pytest
from cases_as_ranks import opened_as_ranks

import tracekit
from tracekit.errors import TraceError

TIMES = 16
ALLOWED = 64
MIN_S = 0.1

EVENT = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}'
HEAD = '{"ph":"X","cat":"kernel","pid":0,"tid":7,"ts":1,"dur":2'


def trace(*events):
    return '{"traceEvents":[' + ",".join(events) + "]}"


# Size of the first reading, the text of a given size, and its number of events, None if undefined.
ATTACKS = {
    "many arrays of events": (
        500, lambda n: "{" + f'"traceEvents":[{EVENT}],' * n + '"x":1}', lambda n: n
    ),
    "many arrays in a member": (
        500,
        lambda n: '{"a":{' + f'"traceEvents":[{EVENT}],' * n + '"x":1},' + trace(EVENT)[1:],
        lambda _: 1,
    ),
    "arrays in arrays": (500, lambda n: '{"a":{"traceEvents":[' * n + trace(EVENT), None),
    "many stray brackets": (200, lambda n: trace(EVENT + f"],{EVENT}" * n), lambda n: n + 1),
    "events that never end": (6_250, lambda n: '{"traceEvents":[' + '{"ph":' * n, None),
    "phases that never end": (
        250, lambda n: '{"traceEvents":[' + EVENT + "," + '{"ph":"X",' * n, lambda _: 1
    ),
    "lists that never end": (
        500, lambda n: trace(*['{"ph":"X","name":"a","args":{"x":[1'] * n), None
    ),
    "a damaged event after every complete one": (
        250, lambda n: trace(*[EVENT, '{"ph":"X","name":"a",,"ts":1 2}'] * n), lambda n: n
    ),
    "quotes in every name": (250, lambda n: trace(*[HEAD + ',"name":"a "b" c"}'] * n), lambda n: n),
    "a header of escaped quotes": (
        25_000,
        lambda n: '{"a":"' + '\\"' * n + '","b":{"traceEvents":[]},' + trace(EVENT)[1:],
        lambda _: 1,
    ),
    "brackets only": (10_000, lambda n: "[" * n, None),
    "closing brackets only": (10_000, lambda n: '{"traceEvents":[' + "}]," * n, None),
    "one key 60,000 times": (3_750, lambda n: trace(HEAD + ',"name":"k"' * n + "}"), lambda _: 1),
    "one argument 60,000 times": (
        3_750,
        lambda n: trace(EVENT[:-1] + ',"args":{"stream":7' + ',"stream":7' * n + "}}"),
        lambda _: 1,
    ),
    "60,000 different members": (
        3_750,
        lambda n: trace(EVENT[:-1] + "".join(f',"a{i}":{i}' for i in range(n)) + "}"),
        lambda _: 1,
    ),
    "a duplicate key in every event": (
        500, lambda n: trace(*[HEAD + ',"name":"k","name":"l"}'] * n), lambda n: n
    ),
    "an event without an end": (
        300_000, lambda n: trace(EVENT)[:-2] + "," + HEAD + ',"name":"' + "k" * n, lambda _: 1
    ),
    "a name of 16 MB": (
        1_000_000, lambda n: trace(EVENT, HEAD + ',"name":"' + "k" * n + '"}', EVENT), None
    ),
}  # fmt: skip


def expect_linear_growth(read, first):
    """Read an attack of some size and of 16 times that size, and compare the CPU time."""
    taken_s = []
    for count in (first, TIMES * first):
        begun = time.process_time()
        read(count)
        taken_s.append(time.process_time() - begun)
    assert taken_s[1] <= ALLOWED * max(taken_s[0], MIN_S)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.nightly("compares CPU times")
def test_growth_of_reading(load, name):
    first, text_of, events_of = ATTACKS[name]

    def read(count):
        try:
            loaded = load(text_of(count))
        except TraceError:
            assert events_of is None
            return
        ((found,),) = loaded.sql("SELECT count(*) FROM record WHERE view_name IS NOT NULL")
        assert events_of is None or found == events_of(count)

    expect_linear_growth(read, first)


@pytest.mark.nightly("takes seconds and 500 MB of memory")
def test_a_name_of_80_mb(load):
    """It exceeds the limit of an event and is read if the file has the room for it."""
    loaded = load(trace(EVENT, HEAD + ',"name":"' + "k" * 80_000_000 + '"}', EVENT))
    ((kept, rejected),) = loaded.sql("SELECT event_count, rejected_count FROM trace")
    assert kept >= 2
    assert kept + rejected >= 3


def test_complete_events_amid_an_attack_are_read(load):
    texts = ['{"ph":"X","name":"a","args":{"x":[1'] * 2_000
    for place in range(0, 2_000, 100):
        texts[place] = EVENT.replace('"k"', f'"whole {place}"')
    names = {name for name in load(trace(*texts)).names if name.startswith("whole")}
    assert names == {f"whole {place}" for place in range(0, 2_000, 100)}


NESTED = {
    "modules": ("python_function", lambda number: f"nn.Module: Block_{number}"),
    "ranges": ("user_annotation", lambda number: f"range {number}"),
    "python calls": ("python_function", lambda number: f"file.py({number}): call"),
    "ops": ("cpu_op", lambda number: f"my::op_{number}"),
}


def nested(count, kind_of):
    """Return nested spans, each of which launches a kernel before the next one begins."""
    events = []
    for number in range(count):
        at = 10 * number
        category, name_of = kind_of(number)
        args = {"correlation": number + 1, "device": 0, "stream": 7}
        event = {"ph": "X", "pid": 1, "tid": 1, "ts": at, "dur": 20 * (count - number)}
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 2, "dur": 3}
        events += [
            event | {"cat": category, "name": name_of(number)},
            event | launch | {"args": args},
            event | {"cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at + 6, "dur": 2}
            | {"args": args},
        ]  # fmt: skip
    return trace(*map(json.dumps, events))


def ask_all(path):
    """Run the analyses of nesting; return the greatest depth of spans and of modules."""
    with tracekit.open(path, cache=False) as opened:
        opened.breakdown()
        opened.query("modules", depth=3)
        gaps = opened.query("idle_gaps", limit=0).to_dicts()
        assert all(gap["cause"] == "host_bound" for gap in gaps)
        ((depth,),) = opened.sql("SELECT max(depth) FROM nesting").rows
        ((module_depth,),) = opened.sql("SELECT coalesce(max(depth), 0) FROM module").rows
    return depth, module_depth


@pytest.mark.parametrize(
    "names",
    [
        ("modules",),
        pytest.param(
            ("ranges", "python calls", "ops"),
            marks=pytest.mark.nightly("modules take the same way"),
        ),
    ],
    ids=str,
)
@pytest.mark.nightly("compares CPU times")
def test_growth_with_the_depth(tmp_path, names):
    """Small traces are read with little memory, and 3,000 nested spans fit into it."""
    kinds = [NESTED[name] for name in names]

    def read(count):
        path = tmp_path / f"{count}.json"
        path.write_text(nested(count, lambda number: kinds[number % len(kinds)]))
        # Modules and ranges are parts of the model, calls and ops are not.
        assert ask_all(path) == (count, len(range(0, count, len(kinds))) - 1)

    expect_linear_growth(read, 3_000 // TIMES)


@pytest.mark.nightly("compares CPU times")
def test_growth_with_the_parts_of_a_name(tmp_path):
    """The parent of a module is found in one step, not in one step per dot of its name."""

    def read(count):
        names = ["tk/module/forward/a", "tk/module/forward/" + "a." * count + "b"]
        path = tmp_path / f"{count}.json"
        path.write_text(nested(2, lambda _: ("user_annotation", names.__getitem__)))
        assert ask_all(path)[1] == 1

    expect_linear_growth(read, 10_000)


@pytest.mark.parametrize("digits", [10, 5_000])
def test_a_number_that_no_layer_has(tmp_path, digits):
    number = "9" * digits
    cases = [
        json.loads(nested(2, lambda _, kind=kind: kind))["traceEvents"]
        for kind in (
            ("user_annotation", lambda _: f"tk/module/forward/layers.{number}.mlp"),
            ("python_function", lambda _: f"nn.Module: DecoderLayer_{number}"),
        )
    ]
    with opened_as_ranks(tmp_path, cases) as opened:
        layers = opened.sql("SELECT DISTINCT trace_id, layer FROM module ORDER BY 1").rows
    assert layers == [(0, None), (1, None)]
