"""What every trace of the evidence has to satisfy, whatever it is of."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import tracekit
from evidence._records import Case

LINKED_AT_LEAST_PCT = 99.0
IN_PHASE_AT_LEAST_PCT = 97.0
UNATTRIBUTED_AT_MOST_PCT = 3.0
UNCLASSIFIED_AT_MOST_PCT = 2.0
_MOST_NAMES = 12


def check(
    case: Case,
    path: Path,
    *,
    phases: Collection[str] = (),
    has_cuda: bool,
    linked_at_least_pct: float = LINKED_AT_LEAST_PCT,
    unattributed_at_most_pct: float = UNATTRIBUTED_AT_MOST_PCT,
    unclassified_at_most_pct: float = UNCLASSIFIED_AT_MOST_PCT,
) -> None:
    """Hold a trace, or a run folder's, against what any trace must satisfy.

    Args:
        case: takes the claims.
        path: the trace or run folder.
        phases: phases in which the device must have worked.
        has_cuda: whether a GPU must be in it.
        linked_at_least_pct: device time whose launch must be there.
        unattributed_at_most_pct: device time that may belong to no module and no named row.
        unclassified_at_most_pct: device time that may be of the class `other`.
    """
    with tracekit.open(path) as trace:
        tables = {
            name: trace.query(name).to_dicts()
            for name in ("timeline", "phases", "modules", "kernel_classes", "idle_causes", "health")
        }
        unclassified = trace.query("kernels", **{"class": "other", "limit": _MOST_NAMES})
        names = {row["name"]: row["kernel_ns"] for row in unclassified.to_dicts()}
    _adds_up(case, tables)
    health = {row["metric"]: row for row in tables["health"]}
    case.claim("no event was rejected", health["rejected"]["value"] == 0)
    case.claim("the file is whole", health["truncated"]["value"] == 0)
    found = {row["phase"] for row in tables["phases"] if row["kernel_ns"] > 0}
    case.claim("the phases are there", set(phases) <= found, found, f"at least {sorted(phases)}")
    if phases:
        value = _value(health, "device_time_in_phase")
        wanted = f"at least {IN_PHASE_AT_LEAST_PCT} %"
        case.claim("device time is in a phase", value >= IN_PHASE_AT_LEAST_PCT, value, wanted)
    kernel_ns = sum(row["kernel_ns"] for row in tables["phases"])
    lost_ns = sum(
        row["self_kernel_ns"] for row in tables["modules"] if row["module_path"] == "(unattributed)"
    )
    lost_pct = 100 * lost_ns / kernel_ns if kernel_ns else 0.0
    wanted = f"at most {unattributed_at_most_pct} %"
    case.claim("device time is placed", lost_pct <= unattributed_at_most_pct, lost_pct, wanted)
    value = _value(health, "device_time_classified")
    is_classified = value >= 100 - unclassified_at_most_pct
    wanted = f"at least {100 - unclassified_at_most_pct} %"
    case.claim("kernels have a class", is_classified, value, wanted)
    devices = {row["device"] for row in tables["timeline"]}
    if has_cuda:
        case.claim("a GPU is in it", bool(devices) and "cpu" not in devices, devices)
        value = _value(health, "device_time_linked")
        wanted = f"at least {linked_at_least_pct} %"
        case.claim("device time is linked", value >= linked_at_least_pct, value, wanted)
        missing = health["launch_missing"]["value"]
        case.claim("no launch is missing", missing == 0, missing)
    warnings = {
        row["metric"]: row["value"] for row in tables["health"] if row["severity"] == "warn"
    }
    case.figure(
        window_ns=sum(row["window_ns"] for row in tables["timeline"]),
        idle_ns=sum(row["idle_ns"] for row in tables["timeline"]),
        device_event_count=sum(row["event_count"] for row in tables["timeline"]),
        inferred_device_time_pct=health["inferred_device_time"]["value"],
        warnings=warnings,
        unclassified_kernel_ns=names,
    )


def _adds_up(case: Case, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Claim that every nanosecond is accounted for exactly once, in each table."""
    timeline = tables["timeline"]
    apart = [
        row["window_ns"]
        - sum(row[f"{part}_ns"] for part in ("compute", "exposed_comm", "exposed_memcpy", "idle"))
        for row in timeline
    ]
    case.claim("the window adds up", bool(timeline) and not any(apart), apart, "0 ns")
    busy = sum(row["busy_ns"] for row in timeline)
    idle = sum(row["idle_ns"] for row in timeline)
    for name, table, column, total in (
        ("busy time over phases", "phases", "wall_ns", busy),
        ("busy time over modules", "modules", "self_wall_ns", busy),
        ("busy time over classes", "kernel_classes", "wall_ns", busy),
        ("idle time over causes", "idle_causes", "idle_ns", idle),
    ):
        got = sum(row[column] for row in tables[table])
        case.claim(f"{name} adds up", got == total, got - total, "0 ns")


def _value(health: dict[str, dict[str, Any]], metric: str) -> float:
    """Return the value of a metric, 0 where the trace cannot tell."""
    value = health[metric]["value"]
    return 0.0 if value is None else float(value)


def check_training(case: Case, path: Path, opt: str, *, has_cuda: bool) -> None:
    """Hold the trace of a training run of ours against what its methods make it.

    Args:
        case: takes the claims.
        path: the run folder.
        opt: the methods, as `--opt` takes them.
        has_cuda: whether a GPU must be in it.
    """
    # The optimizer of LoRA-FA takes a pseudo-inverse of every matrix in every step, which is of no
    # class: of a small model that is half of the time.
    most_pct = 100.0 if "LFA" in opt.split("+") else UNCLASSIFIED_AT_MOST_PCT
    check(
        case,
        path,
        phases=phases_of(opt),
        has_cuda=has_cuda,
        unclassified_at_most_pct=most_pct,
    )


def phases_of(opt: str) -> set[str]:
    """Return the phases that a training run with some methods must have."""
    phases = {"forward", "backward", "optimizer"}
    return phases | {"recompute"} if "R" in opt.split("+") else phases
