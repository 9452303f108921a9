"""Claims that every trace of these tests must satisfy."""

import tracekit

_IN_PHASE_AT_LEAST_PCT = 97.0
_UNCLASSIFIED_AT_MOST_PCT = 2.0
_MAX_NAMES = 12
_TABLES = ("timeline", "phases", "modules", "kernel_classes", "idle_causes", "health")


def claim_trace(
    trial,
    path,
    *,
    phases=(),
    linked_at_least_pct=99.0,
    unattributed_at_most_pct=3.0,
    unclassified_at_most_pct=_UNCLASSIFIED_AT_MOST_PCT,
):
    """Check the claims that every trace, or trace of a run folder, must satisfy.

    The window, and busy and idle time by phase, module, class, and cause, add up to the nanosecond.
    No event is rejected, and the file is complete. Device time has a phase, a class, and a module
    or named row. On a GPU, it is linked to launches, and no launch is missing.
    """
    with tracekit.open(path, cache=False) as trace:
        tables = {name: trace.query(name).to_dicts() for name in _TABLES}
        unclassified = trace.query("kernels", **{"class": "other", "limit": _MAX_NAMES})
        names = {row["name"]: row["kernel_ns"] for row in unclassified.to_dicts()}
    _claim_sums(trial, tables)
    health = {row["metric"]: row["value"] for row in tables["health"]}
    trial.claim("no event was rejected", health["rejected"] == 0, health["rejected"])
    trial.claim("the file is complete", health["truncated"] == 0, health["truncated"])
    found = {row["phase"] for row in tables["phases"] if row["kernel_ns"] > 0}
    trial.claim("the phases are there", set(phases) <= found, found, f"at least {sorted(phases)}")
    if phases:
        _claim_least(trial, health, "device_time_in_phase", _IN_PHASE_AT_LEAST_PCT)
    kernel_ns = sum(row["kernel_ns"] for row in tables["phases"])
    lost_ns = sum(
        row["self_kernel_ns"] for row in tables["modules"] if row["module_path"] == "(unattributed)"
    )
    lost_pct = 100 * lost_ns / kernel_ns if kernel_ns else 0.0
    wanted = f"at most {unattributed_at_most_pct} %"
    trial.claim("device time is placed", lost_pct <= unattributed_at_most_pct, lost_pct, wanted)
    _claim_least(trial, health, "device_time_classified", 100 - unclassified_at_most_pct)
    if trial.is_cuda:
        devices = {row["device"] for row in tables["timeline"]}
        trial.claim("a GPU is in it", bool(devices) and "cpu" not in devices, devices)
        _claim_least(trial, health, "device_time_linked", linked_at_least_pct)
        missing = health["launch_missing"]
        trial.claim("no launch is missing", missing == 0, missing)
    trial.figures(
        window_ns=sum(row["window_ns"] for row in tables["timeline"]),
        idle_ns=sum(row["idle_ns"] for row in tables["timeline"]),
        device_event_count=sum(row["event_count"] for row in tables["timeline"]),
        inferred_device_time_pct=health["inferred_device_time"],
        warnings={
            row["metric"]: row["value"] for row in tables["health"] if row["severity"] == "warn"
        },
        unclassified_kernel_ns=names,
    )


def claim_training(trial, path, opt):
    """Compare the trace of a training run with the claims of its methods (`--opt`)."""
    methods = opt.split("+")
    # The optimizer of LoRA-FA computes a pseudo-inverse of every matrix in every step, which is of
    # no class: of a small model that is half of the time.
    most_pct = 100.0 if "LFA" in methods else _UNCLASSIFIED_AT_MOST_PCT
    phases = {"forward", "backward", "optimizer", *(["recompute"] if "R" in methods else [])}
    claim_trace(trial, path, phases=phases, unclassified_at_most_pct=most_pct)


def _claim_sums(trial, tables):
    timeline = tables["timeline"]
    apart = [
        row["window_ns"]
        - sum(row[f"{part}_ns"] for part in ("compute", "exposed_comm", "exposed_memcpy", "idle"))
        for row in timeline
    ]
    trial.claim("the window adds up", bool(timeline) and not any(apart), apart, "0 ns")
    busy = sum(row["busy_ns"] for row in timeline)
    idle = sum(row["idle_ns"] for row in timeline)
    for name, table, column, total in (
        ("busy time over phases", "phases", "wall_ns", busy),
        ("busy time over modules", "modules", "self_wall_ns", busy),
        ("busy time over classes", "kernel_classes", "wall_ns", busy),
        ("idle time over causes", "idle_causes", "idle_ns", idle),
    ):
        got = sum(row[column] for row in tables[table])
        trial.claim(f"{name} adds up", got == total, got - total, "0 ns")


def _claim_least(trial, health, metric, least_pct):
    value = float(health[metric] or 0)
    trial.claim(metric.replace("_", " "), value >= least_pct, value, f"at least {least_pct} %")
