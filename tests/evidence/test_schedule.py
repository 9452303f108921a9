"""Items run in processes of their own: none outlives its time, and one failure costs no other."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from evidence import _schedule
from evidence._plan import Item
from evidence._schedule import Limits, Schedule

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="looks for processes in /proc"
)
FINDS = """
import json, sys
row = {"item": sys.argv[2], "case": "first", "outcome": "ok", "reason": None, "seconds": 0,
       "claims": [], "figures": {}, "texts": {}}
open(sys.argv[1], "a").write(json.dumps(row) + "\\n")
"""
# Leaves a process behind that has a session of its own.
LEAVES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         start_new_session=True)
open(sys.argv[1] + ".child", "w").write(str(child.pid))
"""
SLEEPS = "import time; time.sleep(600)"


def item(name: str, **more: Any) -> Item:
    return Item(name, "none", "nothing", more.pop("limit_s", 60), least_s=1, **more)


@pytest.fixture
def schedule(tmp_path: Path) -> Any:
    """Return a function that runs items by the Python text of each."""

    def run(items: Sequence[Item], texts: Mapping[str, str], **limits: Any) -> list[dict[str, Any]]:
        def command(one: Item) -> tuple[list[str], Path]:
            record = tmp_path / f"{one.slug}.jsonl"
            return [sys.executable, "-c", texts[one.name], str(record), one.name], record

        (tmp_path / "logs").mkdir(exist_ok=True)
        now = time.monotonic()
        bounds = {"shared_count": 2, "cpu_count": 1, "start_by": now + 300, "end_by": now + 320}
        made = Schedule(
            items,
            Limits(**{**bounds, **limits}),
            command,
            dict(os.environ),
            tmp_path / "logs",
            lambda _: None,
        )
        return made.run()

    return run


def test_one_that_fails_costs_nothing_else(schedule: Any) -> None:
    texts = {"a": FINDS + "raise SystemExit('broken in the middle')", "b": FINDS, "c": "pass"}
    rows = schedule([item("a"), item("b"), item("c")], texts)
    assert [(row["item"], row["case"], row["outcome"]) for row in rows] == [
        ("a", "first", "ok"),
        ("a", "a (as a whole)", "failed"),
        ("b", "first", "ok"),
        # One that says nothing has not done what it was to do.
        ("c", "c", "failed"),
    ]
    assert rows[1]["reason"] == "ended by exit code 1: broken in the middle"


def test_a_time_limit_ends_all_that_was_started(schedule: Any, tmp_path: Path) -> None:
    text = LEAVES + SLEEPS
    rows = schedule([item("slow", limit_s=2)], {"slow": text})
    assert [row["outcome"] for row in rows] == ["failed"]
    assert rows[0]["reason"].startswith("ended after its time limit of 2 s")
    assert_gone(tmp_path / "slow.jsonl.child")


def test_nothing_is_left_running_after_an_item(schedule: Any, tmp_path: Path) -> None:
    schedule([item("leaves")], {"leaves": FINDS + LEAVES})
    assert_gone(tmp_path / "leaves.jsonl.child")


def assert_gone(file: Path) -> None:
    pid = int(file.read_text())
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in ("Z", "X")


def test_what_no_time_is_left_for_is_said(schedule: Any) -> None:
    rows = schedule(
        [item("a"), item("last", is_last=True)],
        {"a": FINDS, "last": FINDS},
        start_by=time.monotonic() - 1,
    )
    assert [(row["item"], row["outcome"]) for row in rows] == [("a", "left out"), ("last", "ok")]
    assert rows[0]["reason"] == "no time was left"


def test_lanes(schedule: Any, tmp_path: Path) -> None:
    """One that measures has the device to itself; one that looks waits for what it looks at."""
    text = """
import json, sys, time
begin = time.monotonic()
time.sleep(0.3)
row = {"item": sys.argv[2], "case": "", "outcome": "ok", "reason": None, "seconds": 0,
       "claims": [], "figures": {"begin": begin, "end": time.monotonic()}, "texts": {}}
open(sys.argv[1], "a").write(json.dumps(row) + "\\n")
"""
    items = [
        item("shared 1"),
        item("shared 2"),
        item("alone 1", lane="gpu"),
        item("looks", lane="cpu", after="alone 1"),
        item("alone 2", lane="gpu"),
        item("shared 3"),
        item("last", lane="cpu", is_last=True),
    ]
    rows = schedule(items, {one.name: text for one in items})
    assert [row["outcome"] for row in rows] == ["ok"] * len(items)
    spans = {row["item"]: (row["figures"]["begin"], row["figures"]["end"]) for row in rows}
    others = [name for name in spans if name != "looks"]
    for alone in ("alone 1", "alone 2", "last"):
        for other in others:
            if other != alone:
                assert not overlap(spans[alone], spans[other]), (alone, other)
    assert spans["looks"][0] >= spans["alone 1"][1]
    assert spans["last"][0] >= max(end for name, (_, end) in spans.items() if name != "last")


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def test_an_interrupt_leaves_nothing_running(tmp_path: Path, monkeypatch: Any) -> None:
    def command(one: Item) -> tuple[list[str], Path]:
        return [sys.executable, "-c", LEAVES + SLEEPS, str(tmp_path / "x")], tmp_path / "x"

    made = Schedule(
        [item("slow")],
        Limits(1, 1, time.monotonic() + 60, time.monotonic() + 60),
        command,
        dict(os.environ),
        tmp_path,
        lambda _: None,
    )

    wait = time.sleep

    def interrupt(seconds: float) -> None:
        if (tmp_path / "x.child").is_file():
            monkeypatch.undo()
            raise KeyboardInterrupt
        wait(seconds)

    monkeypatch.setattr(_schedule.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert_gone(tmp_path / "x.child")


def test_records_survive_a_cut_line(tmp_path: Path) -> None:
    from evidence import _records

    path = tmp_path / "record.jsonl"
    record = _records.Record(path, "item")
    with record.case("good") as case:
        case.claim("it holds", True)
        case.figure(share_pct=float("nan"))
    with record.case("bad") as case:
        case.claim("one and one is two", 1 + 1 == 3, 2, "3")
    with record.case("worse"):
        raise ValueError("first line\nsecond line")
    with record.case("not here"):
        raise _records.SkippedError("there is none")
    with path.open("a") as file:
        file.write('{"item": "item", "case": "cut')
    rows = _records.read(path)
    assert [(row["case"], row["outcome"], row["reason"]) for row in rows] == [
        ("good", "ok", None),
        ("bad", "failed", "one and one is two: 2, wanted 3"),
        ("worse", "failed", "ValueError: first line"),
        ("not here", "skipped", "there is none"),
    ]
    json.dumps(rows, allow_nan=False)


def test_a_lost_cuda_context_ends_the_process_and_a_full_device_does_not(tmp_path: Path) -> None:
    from evidence import _records

    record = _records.Record(tmp_path / "record.jsonl", "item")
    with record.case("full"):
        raise RuntimeError("CUDA error: out of memory")
    with pytest.raises(RuntimeError), record.case("lost"):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    rows = _records.read(tmp_path / "record.jsonl")
    assert [row["outcome"] for row in rows] == ["failed", "failed"]
