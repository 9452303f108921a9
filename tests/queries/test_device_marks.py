"""The rules about marks of devices as data, and two public samples; made-up traces are cases."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import tracekit
from tracekit.analysis.device_rules import FILE_NAME, ROLES, lane_sql
from tracekit.analysis.rules import builtin_content


def test_the_rules_are_sound() -> None:
    content = builtin_content(FILE_NAME)
    known = {field for rule in content["rule"] for field in rule}
    assert known == {
        "accelerator", "role", "process", "label", "thread", "category", "event", "argument",
        "value", "class", "is_fallback", "is_one_device",
    }  # fmt: skip
    patterns = [content["unknown"]["process"], content["unknown"]["but_not"]]
    for rule in content["rule"]:
        assert rule["role"] in ROLES
        assert lane_sql(rule) != "TRUE"
        assert ("argument" in rule) == ("value" in rule)
        keys = ("process", "label", "thread", "category", "event", "value")
        patterns += [rule[key] for key in keys if key in rule]
    for mark in content["unrecorded"]:
        assert len(mark["reason"]) > 10
        patterns += [mark[key] for key in ("call", "label", "product", "op") if key in mark]
    for pattern in patterns:
        duckdb.execute("SELECT regexp_matches('', ?)", [pattern])


def test_aiu_of_a_public_sample(public_traces: Path) -> None:
    """By hand: 17 begin and end pairs, 2,702.353 µs, of which one of 280.967 µs is there twice."""
    path = public_traces.parent / "odd_traces" / "aiu_flex_job4.json.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with tracekit.open(path) as trace:
        (row,) = trace.query("timeline").to_dicts()
        assert (row["event_count"], row["compute_ns"]) == (17, 2_702_353 - 280_967)
        # From the first begin, of convolution, to the last end, of addmm.
        assert row["window_ns"] == 731_380_489 - 719_617_232
        assert trace.query("trace").column("accelerator") == ["aiu"]


def test_synthetic_ascend_is_busy_for_eight_tenths(public_traces: Path) -> None:
    path = public_traces.parent / "odd_traces" / "synth_ascend.json.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    # Ten kernels of 800 µs, one each ms: the window ends with the last of them.
    with tracekit.open(path) as trace:
        (row,) = trace.query("timeline").to_dicts()
    found = (row["device"], row["window_ns"], row["compute_ns"], row["event_count"])
    assert found == ("npu", 9_800_000, 8_000_000, 10)
