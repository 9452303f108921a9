"""What is made to take long takes no longer than its size allows.

Each attack is read at some size, and at sixteen times that size. Sixteen times the work is what a
linear reading takes, 256 times what a quadratic one does; the line is drawn at 64. What is measured
is the processor's time, and a short first reading counts as a tenth of a second, so that neither a
busy machine nor a coarse clock decides.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks

import tracekit
from tracekit.errors import TraceError

TIMES = 16
ALLOWED = 64
LEAST_S = 0.1

EVENT = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}'
HEAD = '{"ph":"X","cat":"kernel","pid":0,"tid":7,"ts":1,"dur":2'


def trace(*events: str) -> str:
    return '{"traceEvents":[' + ",".join(events) + "]}"


Attack = Callable[[int], str]

# How large the first reading is, the text of a given size, and how many events are in it: None
# where that is nothing to rely on.
ATTACKS: dict[str, tuple[int, Attack, Callable[[int], int] | None]] = {
    "many arrays of events": (
        500,
        lambda n: "{" + f'"traceEvents":[{EVENT}],' * n + '"x":1}',
        lambda n: n,
    ),
    "many arrays in a member": (
        500,
        lambda n: '{"a":{' + f'"traceEvents":[{EVENT}],' * n + '"x":1},' + trace(EVENT)[1:],
        lambda _: 1,
    ),
    "arrays in arrays": (500, lambda n: '{"a":{"traceEvents":[' * n + trace(EVENT), None),
    "many stray brackets": (
        200,
        lambda n: trace(EVENT + f"],{EVENT}" * n),
        lambda n: n + 1,
    ),
    "events that begin and never end": (6_250, lambda n: '{"traceEvents":[' + '{"ph":' * n, None),
    "phases that begin and never end": (
        250,
        lambda n: '{"traceEvents":[' + EVENT + "," + '{"ph":"X",' * n,
        lambda _: 1,
    ),
    "lists that begin and never end": (
        500,
        lambda n: trace(*['{"ph":"X","name":"a","args":{"x":[1'] * n),
        None,
    ),
    "a damaged event behind every whole one": (
        250,
        lambda n: trace(*[EVENT, '{"ph":"X","name":"a",,"ts":1 2}'] * n),
        lambda n: n,
    ),
    "quotes in every name": (
        250,
        lambda n: trace(*[HEAD + ',"name":"a "b" c"}'] * n),
        lambda n: n,
    ),
    "a header of escaped quotes": (
        25_000,
        lambda n: '{"a":"' + '\\"' * n + '","b":{"traceEvents":[]},' + trace(EVENT)[1:],
        lambda _: 1,
    ),
    "brackets only": (10_000, lambda n: "[" * n, None),
    "closing brackets only": (10_000, lambda n: '{"traceEvents":[' + "}]," * n, None),
    "a key that comes 60,000 times": (
        3_750,
        lambda n: trace(HEAD + ',"name":"k"' * n + "}"),
        lambda _: 1,
    ),
    "an argument that comes 60,000 times": (
        3_750,
        lambda n: trace(EVENT[:-1] + ',"args":{"stream":7' + ',"stream":7' * n + "}}"),
        lambda _: 1,
    ),
    "60,000 different members": (
        3_750,
        lambda n: trace(EVENT[:-1] + "".join(f',"a{i}":{i}' for i in range(n)) + "}"),
        lambda _: 1,
    ),
    "events with a key that comes twice": (
        500,
        lambda n: trace(*[HEAD + ',"name":"k","name":"l"}'] * n),
        lambda n: n,
    ),
    "an event without an end": (
        300_000,
        lambda n: trace(EVENT)[:-2] + "," + HEAD + ',"name":"' + "k" * n,
        lambda _: 1,
    ),
    "a name of 16 MB": (
        1_000_000,
        lambda n: trace(EVENT, HEAD + ',"name":"' + "k" * n + '"}', EVENT),
        None,
    ),
}


def seconds(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


@pytest.mark.parametrize("name", ATTACKS)
def test_growth_of_reading(load: Callable[..., Any], name: str) -> None:
    first, text_of, events_of = ATTACKS[name]
    taken_s = []
    for count in (first, TIMES * first):
        text = text_of(count)
        found: list[int] = []

        def read(text: str = text, found: list[int] = found) -> None:
            try:
                loaded = load(text)
            except TraceError:
                return
            found.append(
                loaded.sql("SELECT count(*) FROM record WHERE view_name IS NOT NULL")[0][0]
            )

        taken_s.append(seconds(read))
        if events_of is not None:
            assert found == [events_of(count)]
    assert taken_s[1] <= ALLOWED * max(taken_s[0], LEAST_S)


def test_a_bomb_of_events(load: Callable[..., Any]) -> None:
    """A few kB of gzip that hold MBs of events: the time is that of the events."""
    taken_s = []
    for count in (5_000, TIMES * 5_000):
        packed = gzip.compress(trace(*[EVENT] * count).encode(), mtime=0)
        assert len(packed) < count
        found: list[Any] = []
        taken_s.append(
            seconds(lambda packed=packed, found=found: found.append(load(packed, "bomb.json.gz")))
        )
        assert found[0].sql("SELECT event_count FROM trace") == [(count,)]
    assert taken_s[1] <= ALLOWED * max(taken_s[0], LEAST_S)


@pytest.mark.slow
def test_a_name_of_80_mb(load_by: Callable[[bool], Callable[..., Any]]) -> None:
    """It is longer than what an event may be at most, and read if the file has the room for it."""
    loaded = load_by(True)(trace(EVENT, HEAD + ',"name":"' + "k" * 80_000_000 + '"}', EVENT))
    ((kept, rejected),) = loaded.sql("SELECT event_count, rejected_count FROM trace")
    assert kept >= 2
    assert kept + rejected >= 3


def test_what_is_whole_amid_an_attack_is_read(load: Callable[..., Any]) -> None:
    """The plain way, which text that is made to take long is read in, loses nothing either."""
    noise = '{"ph":"X","name":"a","args":{"x":[1'
    texts = [noise] * 2_000
    for place in range(0, 2_000, 100):
        texts[place] = EVENT.replace('"k"', f'"whole {place}"')
    loaded = load(trace(*texts))
    names = {name for name in loaded.names if name.startswith("whole")}
    assert names == {f"whole {place}" for place in range(0, 2_000, 100)}


NESTED: dict[str, tuple[str, Callable[[int], str]]] = {
    "modules": ("python_function", lambda number: f"nn.Module: Block_{number}"),
    "ranges": ("user_annotation", lambda number: f"range {number}"),
    "python calls": ("python_function", lambda number: f"file.py({number}): call"),
    "ops": ("cpu_op", lambda number: f"my::op_{number}"),
}


def nested(count: int, kind_of: Callable[[int], tuple[str, Callable[[int], str]]]) -> str:
    """Return spans in each other, each of which launches a kernel before the next one begins."""
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


def ask_all(path: Path) -> tuple[int, int]:
    """Ask what looks at how things nest; return the greatest depth, and of modules."""
    with tracekit.open(path, cache=False) as opened:
        opened.breakdown()
        opened.query("modules", depth=3)
        gaps = opened.query("idle_gaps", limit=0).to_dicts()
        assert all(gap["cause"] == "host_bound" for gap in gaps)
        ((depth,),) = opened.sql("SELECT max(depth) FROM nesting").rows
        ((module_depth,),) = opened.sql("SELECT coalesce(max(depth), 0) FROM module").rows
    return depth, module_depth


@pytest.mark.parametrize("names", [("modules",), ("ranges", "python calls", "ops")], ids=str)
def test_growth_with_the_depth(tmp_path: Path, names: tuple[str, ...]) -> None:
    """In memory, too: small traces are read with little of it, and 3,000 in each other fit."""
    kinds = [NESTED[name] for name in names]
    taken_s = []
    for count in (3_000 // TIMES, 3_000):
        path = tmp_path / f"{count}.json"
        path.write_text(nested(count, lambda number: kinds[number % len(kinds)]))
        found: list[tuple[int, int]] = []
        taken_s.append(seconds(lambda path=path, found=found: found.append(ask_all(path))))
        # Modules and ranges are parts of the model, calls and ops are not.
        assert found == [(count, len(range(0, count, len(kinds))) - 1)]
    assert taken_s[1] <= ALLOWED * max(taken_s[0], LEAST_S)


@pytest.mark.slow
def test_12000_in_each_other(tmp_path: Path) -> None:
    """Modules in ranges in calls in ops, and again: of one kind 3,000, as above."""
    kinds = [*NESTED.values()]
    path = tmp_path / "deep.json"
    path.write_text(nested(12_000, lambda number: kinds[number % 4]))
    assert ask_all(path)[0] == 12_000


def test_growth_with_the_parts_of_a_name(tmp_path: Path) -> None:
    """A module's whole name says which module it is in: by one look, not one for each dot."""
    taken_s = []
    for count in (10_000, TIMES * 10_000):
        names = ["tk/module/forward/a", "tk/module/forward/" + "a." * count + "b"]
        path = tmp_path / f"{count}.json"
        kind = ("user_annotation", names.__getitem__)
        path.write_text(nested(2, lambda _, kind=kind: kind))
        found: list[int] = []
        taken_s.append(seconds(lambda path=path, found=found: found.append(ask_all(path)[1])))
        assert found == [1]
    assert taken_s[1] <= ALLOWED * max(taken_s[0], LEAST_S)


@pytest.mark.parametrize("digits", [10, 5_000])
def test_a_number_that_no_layer_has(tmp_path: Path, digits: int) -> None:
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
