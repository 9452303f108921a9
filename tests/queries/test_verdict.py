"""Analysis verdict: which part is the largest, which loss, and what health warns of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pytest

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Column, Result
from tracekit.analysis.run import run_analysis


def rows_of(name: str, *rows: Mapping[str, Any]) -> Result:
    spec = load_catalog().analysis(name)
    columns = tuple(Column(column.name, column.type) for column in spec.columns)
    return Result(name, columns, [tuple(map(row.get, spec.column_names)) for row in rows])


def verdict(*inputs: Result) -> dict[str, dict[str, Any]]:
    known = {name: rows_of(name) for name in ("timeline", "kernel_classes", "idle_causes")}
    known |= {"health": rows_of("health", {"metric": "rejected", "severity": "ok"})}
    known |= {result.name: result for result in inputs}
    with duckdb.connect() as connection:
        found = run_analysis(connection, load_catalog().analysis("verdict"), {}, known)
    return {row["topic"]: row for row in found.to_dicts()}


def window(
    length_ns: int, exposed_comm_ns: int = 0, exposed_memcpy_ns: int = 0
) -> dict[str, int | str]:
    return {
        "device": "0",
        "window_ns": length_ns,
        "exposed_comm_ns": exposed_comm_ns,
        "exposed_memcpy_ns": exposed_memcpy_ns,
        "event_count": 10,
    }


def test_the_largest_part_is_that_of_all_devices_together() -> None:
    """Class gemm is first on one device; attention on both together: 30 + 50 of 2 × 100."""
    told = verdict(
        rows_of("timeline", window(100), window(100)),
        rows_of(
            "kernel_classes",
            {"class": "gemm", "wall_ns": 60, "kernel_count": 3},
            {"class": "attention", "wall_ns": 30, "kernel_count": 1},
            {"class": "attention", "wall_ns": 50, "kernel_count": 2},
        ),
    )["largest_part"]
    keys = ("subject", "amount_ns", "share_pct", "count", "of_count")
    assert tuple(told[key] for key in keys) == ("attention", 80, 40.0, 3, 20)


@pytest.mark.parametrize(
    ("comm_ns", "memcpy_ns", "idle_ns", "subject"),
    [(30, 20, 10, "exposed_comm"), (10, 20, 15, "exposed_memcpy"), (10, 20, 25, "host_sync")],
)
def test_the_largest_loss_is_one_of_three_kinds(
    comm_ns: int, memcpy_ns: int, idle_ns: int, subject: str
) -> None:
    causes = rows_of(
        "idle_causes",
        {"cause": "host_sync", "idle_ns": idle_ns, "gap_count": 4, "top_op": "aten::item"},
        {"cause": "unknown", "idle_ns": 5, "gap_count": 1},
    )
    told = verdict(rows_of("timeline", window(100, comm_ns, memcpy_ns)), causes)["largest_loss"]
    assert (told["subject"], told["amount_ns"]) == (subject, max(comm_ns, memcpy_ns, idle_ns))
    assert told["top_op"] == ("aten::item" if subject == "host_sync" else None)


def test_without_a_loss_there_is_none() -> None:
    assert "largest_loss" not in verdict(rows_of("timeline", window(100)))


def test_trust_names_what_warns_on_most_ranks() -> None:
    health = rows_of(
        "health",
        *({"rank": r, "metric": "truncated", "severity": "warn", "meaning": "cut"} for r in (0, 1)),
        {"rank": 0, "metric": "rejected", "severity": "warn", "meaning": "bad"},
        {"rank": 1, "metric": "rejected", "severity": "ok", "meaning": "bad"},
        {"rank": 0, "metric": "repaired", "severity": "note", "meaning": "mended"},
    )
    told = verdict(rows_of("timeline", window(100)), health)["trust"]
    assert (told["subject"], told["meaning"]) == ("truncated", "cut")
    assert (told["count"], told["of_count"]) == (2, 3)


def test_trust_without_a_warning_names_nothing() -> None:
    told = verdict(rows_of("timeline", window(100)))["trust"]
    assert (told["subject"], told["count"], told["of_count"]) == (None, 0, 1)


def test_no_part_is_named_where_the_work_of_launches_is_not_in_the_file() -> None:
    warned = {"severity": "warn", "meaning": "captured"}
    told = verdict(
        rows_of("timeline", window(100)),
        rows_of("kernel_classes", {"class": "gemm", "wall_ns": 60, "kernel_count": 3}),
        rows_of(
            "health",
            {"metric": "launches_without_work", **warned},
            {"metric": "truncated", **warned},
        ),
    )
    assert told.keys() == {"trust"}
    assert told["trust"]["subject"] == "launches_without_work"
