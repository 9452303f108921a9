"""The kernel-class rules, checked as data: no store is needed.

The rules are applied as the loader applies them, as one CASE of constant RE2 patterns in DuckDB.
Tests on the public traces look for them in the folder TRACEKIT_PUBLIC_TRACES, else in
`../shared/traces` beside the repository, and skip where there is none.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from tracekit.analysis.rules import load_kernel_rules

REPOSITORY = Path(__file__).resolve().parents[2]
RULES_FILE = REPOSITORY / "queries" / "rules" / "kernel_class.toml"
TRACES_FOLDER = Path(
    os.environ.get("TRACEKIT_PUBLIC_TRACES") or REPOSITORY.parent / "shared" / "traces"
)
TRACE_FILES = (
    sorted(str(path.relative_to(TRACES_FOLDER)) for path in TRACES_FOLDER.rglob("*.json.gz"))
    if TRACES_FOLDER.is_dir()
    else []
)
NO_TRACES = f"no public traces in {TRACES_FOLDER}"
on_every_trace = pytest.mark.parametrize(
    "file",
    TRACE_FILES or [pytest.param("", marks=pytest.mark.skip(reason=NO_TRACES))],
    ids=[name.removesuffix(".json.gz") for name in TRACE_FILES] or ["none"],
)

COMPUTE = (
    *("gemm", "attention", "conv", "elementwise", "reduction", "softmax", "norm", "rope"),
    *("embedding", "optimizer", "quantize", "moe_routing", "sort_topk", "layout"),
    *("triton_fused", "memset", "other"),
)
COMM = (
    *("comm_allreduce", "comm_allgather", "comm_reducescatter", "comm_alltoall"),
    *("comm_broadcast", "comm_p2p", "comm_other"),
)
MEMCPY = ("memcpy_h2d", "memcpy_d2h", "memcpy_d2d")
DEVICE_CATEGORIES = {
    *("kernel", "gpu_memcpy", "gpu_memset"),
    *("Kernel", "Memcpy", "Memset", "mtia_ccp_events"),
}
OPERATOR_CATEGORIES = {"cpu_op", "Operator"}
MOST_UNCLASSIFIED_PCT = 1.0

Named = tuple[str, str]
"""A category and a name."""


@functools.cache
def document() -> dict[str, Any]:
    return tomllib.loads(RULES_FILE.read_text(encoding="utf-8"))


def kinds() -> dict[str, str]:
    return {name: facts["kind"] for name, facts in document()["class"].items()}


def rules() -> list[dict[str, str]]:
    return [{"applies_to": "device", **rule} for rule in document()["rule"]]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@functools.cache
def first_match_sql(applies_to: str) -> str:
    """The CASE that gives the position of the first rule that matches `name` and `category`."""
    branches = []
    for position, rule in enumerate(rules()):
        if rule["applies_to"] != applies_to:
            continue
        condition = f"regexp_matches(name, {quoted(rule['pattern'])})"
        if "category" in rule:
            condition += f" AND regexp_matches(category, {quoted(rule['category'])})"
        branches.append(f"WHEN {condition} THEN {position}")
    return f"CASE {' '.join(branches)} END"


def winners(applies_to: str, named: Iterable[Named]) -> dict[Named, int | None]:
    """Which rule wins each name, by its position in the file; None where no rule matches."""
    distinct = sorted(set(named))
    if not distinct:
        return {}
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE named (category VARCHAR, name VARCHAR)")
        connection.executemany("INSERT INTO named VALUES (?, ?)", distinct)
        rows = connection.execute(
            f"SELECT category, name, {first_match_sql(applies_to)} FROM named"
        ).fetchall()
    return {(category, name): position for category, name, position in rows}


def classes(applies_to: str, named: Iterable[Named]) -> dict[Named, str]:
    return {
        key: "other" if position is None else rules()[position]["class"]
        for key, position in winners(applies_to, named).items()
    }


# ---- the file itself -----------------------------------------------------------------------------


def test_every_class_has_its_kind() -> None:
    expected = {
        **dict.fromkeys(COMPUTE, "compute"),
        **dict.fromkeys(COMM, "comm"),
        **dict.fromkeys(MEMCPY, "memcpy"),
    }
    assert kinds() == expected


@pytest.mark.parametrize("kind", ['[kinds]\nmine = "comm"\n', '[class]\nmine = {kind = "comm"}\n'])
def test_a_file_of_the_user_gives_the_kind_of_its_class(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(kind + "[[rule]]\nclass = 'mine'\npattern = '^mine'\n")
    rule = load_kernel_rules(path)[0]
    assert (rule["class"], rule["kind"]) == ("mine", "comm")


def test_rules_hold_what_they_must() -> None:
    for position, rule in enumerate(rules()):
        where = (position, rule)
        assert rule["class"] in kinds(), where
        assert rule["applies_to"] in ("device", "cpu"), where
        assert all(rule[key].strip() for key in ("pattern", "source", "example")), where
        assert not set(rule) - {
            *("class", "applies_to", "pattern", "category", "source", "example", "trace")
        }, where
        assert not (rule["applies_to"] == "cpu" and rule["class"].startswith("memcpy_")), where


def test_patterns_compile_as_re2() -> None:
    patterns = [rule["pattern"] for rule in rules()]
    patterns += [rule["category"] for rule in rules() if "category" in rule]
    with duckdb.connect() as connection:
        for pattern in patterns:
            sql = f"SELECT regexp_matches('name', {quoted(pattern)})"
            assert connection.execute(sql).fetchone() is not None, pattern


def test_no_pattern_matches_an_empty_or_unknown_name() -> None:
    names = [("kernel", name) for name in ("", "x", "void acme::frobnicate<int>(int*)")]
    for applies_to in ("device", "cpu"):
        assert set(winners(applies_to, names).values()) == {None}


def test_every_rule_wins_its_own_example() -> None:
    for applies_to in ("device", "cpu"):
        expected: dict[Named, int] = {}
        for position, rule in enumerate(rules()):
            if rule["applies_to"] == applies_to:
                expected[(example_category(rule), rule["example"])] = position
        assert winners(applies_to, expected) == expected
        assert len(expected) == sum(rule["applies_to"] == applies_to for rule in rules())


def example_category(rule: dict[str, str]) -> str:
    """A category of today that the rule's `category`, if any, accepts."""
    if "category" not in rule:
        return "kernel" if rule["applies_to"] == "device" else "cpu_op"
    accepted = [name for name in sorted(DEVICE_CATEGORIES) if re.search(rule["category"], name)]
    return max(accepted)


def test_old_and_new_categories_are_copies_and_sets_alike() -> None:
    expected = {
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"): "memcpy_h2d",
        ("Memcpy", "Memcpy HtoD (Pageable -> Device)"): "memcpy_h2d",
        ("gpu_memcpy", "CopyHostToDevice"): "memcpy_h2d",
        ("gpu_memcpy", "Memcpy M2D(M -> D)"): "memcpy_h2d",
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)"): "memcpy_d2h",
        ("gpu_memcpy", "MEMORY_COPY_DEVICE_TO_HOST"): "memcpy_d2h",
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)"): "memcpy_d2d",
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)"): "memcpy_d2d",
        ("gpu_memcpy", "Memcpy HtoH (Pageable -> Pinned)"): "memcpy_d2d",
        ("gpu_memset", "Memset (Device)"): "memset",
        ("Memset", "Memset (Unknown)"): "memset",
    }
    assert classes("device", expected) == expected


# Spellings of kernels that the public traces do not hold, or hold little of; arguments shortened.
# Each line is the class and the name; most contain a word of another class.
TRAPS = Path(__file__).with_name("misleading_kernel_names.txt")


def test_names_that_mislead() -> None:
    expected: dict[Named, str] = {}
    for line in TRAPS.read_text("utf-8").splitlines():
        class_name, _, name = line.partition(" | ")
        expected[("kernel", name)] = class_name
    found = classes("device", expected)
    wrong = {
        name: (found[name], expected[name]) for name in expected if found[name] != expected[name]
    }
    assert wrong == {}


# ---- the public traces ---------------------------------------------------------------------------


class RawEvent(msgspec.Struct):
    """The fields of an event that are used here; times keep their decimal text."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"0")
    dur: msgspec.Raw = msgspec.Raw(b"0")


class RawFile(msgspec.Struct, rename={"trace_events": "traceEvents"}):
    trace_events: list[RawEvent]


@dataclass(frozen=True, slots=True)
class Span:
    category: str
    name: str
    thread: tuple[str, str]
    start_ns: int
    end_ns: int

    @property
    def named(self) -> Named:
        return (self.category, self.name)


@dataclass(frozen=True, slots=True)
class Trace:
    device: list[Span]
    operators: list[Span]
    gloo: list[Span]


def nanoseconds(raw: msgspec.Raw) -> int:
    return int(Decimal(bytes(raw).decode()) * 1000)


@functools.cache
def read(file: str) -> Trace:
    data = gzip.decompress((TRACES_FOLDER / file).read_bytes())
    events = msgspec.json.decode(data, type=RawFile).trace_events
    trace = Trace([], [], [])
    has_device = any(event.ph == "X" and event.cat in DEVICE_CATEGORIES for event in events)
    for event in events:
        if event.ph != "X" or event.name is None or event.cat is None:
            continue
        if event.cat in DEVICE_CATEGORIES:
            into = trace.device
        elif event.cat in OPERATOR_CATEGORIES:
            into = trace.operators
        elif event.cat == "user_annotation" and event.name.startswith("gloo:"):
            into = trace.gloo
        else:
            continue
        # The times of operators matter only where operators are the device events.
        timed = into is trace.device or not has_device
        start_ns = nanoseconds(event.ts) if timed else 0
        end_ns = start_ns + nanoseconds(event.dur) if timed else 0
        thread = (str(event.pid), str(event.tid))
        into.append(Span(event.cat, event.name, thread, start_ns, end_ns))
    return trace


def union_ns(spans: Iterable[Span]) -> int:
    total_ns = 0
    reached_ns: int | None = None
    for start_ns, end_ns in sorted((span.start_ns, span.end_ns) for span in spans):
        if reached_ns is None or start_ns > reached_ns:
            total_ns += end_ns - start_ns
            reached_ns = end_ns
        elif end_ns > reached_ns:
            total_ns += end_ns - reached_ns
            reached_ns = end_ns
    return total_ns


def leaf_and_self_ns(spans: Sequence[Span]) -> tuple[Counter[Named], Counter[Named]]:
    """Time by name: of spans with none nested in them on their thread, and self time of all."""
    threads: defaultdict[tuple[str, str], list[Span]] = defaultdict(list)
    for span in spans:
        threads[span.thread].append(span)
    leaf_ns: Counter[Named] = Counter()
    self_ns: Counter[Named] = Counter()
    for thread in threads.values():
        open_spans: list[list[Any]] = []  # the span and the time of what is nested in it

        def close(entry: list[Any]) -> None:
            span, nested_ns = entry
            duration_ns = span.end_ns - span.start_ns
            self_ns[span.named] += max(duration_ns - (nested_ns or 0), 0)
            if nested_ns is None:
                leaf_ns[span.named] += duration_ns

        for span in sorted(thread, key=lambda span: (span.start_ns, -span.end_ns)):
            while open_spans and open_spans[-1][0].end_ns <= span.start_ns:
                close(open_spans.pop())
            if open_spans:
                around = open_spans[-1]
                inside_ns = min(span.end_ns, around[0].end_ns) - span.start_ns
                around[1] = (around[1] or 0) + inside_ns
            open_spans.append([span, None])
        while open_spans:
            close(open_spans.pop())
    return leaf_ns, self_ns


def is_work(name: str) -> bool:
    """Whether an op of a CPU is work: autograd's nodes and Python's ranges around ops are not."""
    return "::" in name and not name.startswith(("autograd::", "torch::autograd::"))


def unclassified_pct(time_ns: Counter[Named], found: dict[Named, str]) -> float:
    total_ns = sum(time_ns.values())
    other_ns = sum(duration for named, duration in time_ns.items() if found[named] == "other")
    return 100 * other_ns / total_ns if total_ns else 0.0


@pytest.mark.skipif(not TRACE_FILES, reason=NO_TRACES)
def test_examples_occur_in_the_traces_they_name() -> None:
    for rule in rules():
        if "trace" not in rule:
            continue
        trace = read(rule["trace"])
        events = trace.device if rule["applies_to"] == "device" else trace.operators + trace.gloo
        found = [span for span in events if span.name == rule["example"]]
        assert found, rule
        if "category" in rule:
            assert any(re.search(rule["category"], span.category) for span in found), rule


@on_every_trace
def test_kinds_give_the_exact_unions(file: str) -> None:
    expected = json.loads((TRACES_FOLDER / "expected.json").read_text(encoding="utf-8"))
    if file not in expected:
        pytest.skip("expected.json has no figures for this trace")
    timeline_ns = expected[file]["timeline_ns"]
    trace = read(file)
    assert len(trace.device) == expected[file]["device_events"]
    if timeline_ns is None:
        return
    found = classes("device", (span.named for span in trace.device))
    by_kind: defaultdict[str, list[Span]] = defaultdict(list)
    for span in trace.device:
        by_kind[kinds()[found[span.named]]].append(span)
    unions_ns = {kind: union_ns(by_kind[kind]) for kind in ("compute", "comm", "memcpy")}
    assert unions_ns == {kind: timeline_ns[kind] for kind in unions_ns}


@on_every_trace
def test_little_is_left_unclassified(file: str) -> None:
    trace = read(file)
    if trace.device:
        time_ns: Counter[Named] = Counter()
        for span in trace.device:
            time_ns[span.named] += span.end_ns - span.start_ns
        found = classes("device", time_ns)
        assert unclassified_pct(time_ns, found) <= MOST_UNCLASSIFIED_PCT
        return
    operators = [span for span in trace.operators if is_work(span.name)]
    found = classes("cpu", (span.named for span in operators))
    for time_ns in leaf_and_self_ns(operators):
        assert unclassified_pct(time_ns, found) <= MOST_UNCLASSIFIED_PCT


@pytest.mark.skipif(not TRACE_FILES, reason=NO_TRACES)
def test_communication_of_the_cpu_is_communication() -> None:
    collectives: set[Named] = set()
    for file in TRACE_FILES:
        trace = read(file)
        collectives |= {span.named for span in trace.operators if span.name.startswith("c10d::")}
        collectives |= {span.named for span in trace.gloo}
    found = classes("cpu", collectives)
    assert {kinds()[class_name] for class_name in found.values()} == {"comm"}
    assert found[("user_annotation", "gloo:all_reduce")] == "comm_allreduce"
    assert found[("user_annotation", "gloo:all_gather")] == "comm_allgather"
