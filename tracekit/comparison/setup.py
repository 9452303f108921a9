"""Differences in the setup of two sides that limit the comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from tracekit.trace import Trace

Weight = Literal["matters", "note"]
"""Whether a difference changes figures (`matters`) or may change them (`note`)."""


class Unlike(Struct, frozen=True):
    """A setting that differs; None on a side where it is unknown."""

    subject: str
    name: str
    base: str | None
    new: str | None
    weight: Weight


_OF_RUN: Mapping[tuple[str, Weight], str] = {
    ("device", "matters"): "devices processor",
    ("device", "note"): "core_count driver_version",
    ("workload", "matters"): (
        "stage model parameter_count layer_count engine opt precision batch_size sequence_length "
        "gradient_accumulation attention_backend world_size tensor_size pipeline_size node_count "
        "load_request_count load_prompt_token_count load_max_new_token_count load_arrival "
        "load_concurrency"
    ),
    ("workload", "note"): "data_size",
    ("software", "note"): "platform python_version tracekit_version",
    ("software", "matters"): "thread_count",
    ("run", "note"): "outcome",
}
"""Columns of table run to compare."""

_FLAGS = ("record_shapes", "with_stack", "with_modules", "with_flops", "profile_memory")
_HEALTH = {
    "device_time_linked": 5.0,
    "device_time_in_module_or_row": 5.0,
    "device_time_in_phase": 5.0,
    "device_time_classified": 5.0,
    "inferred_device_time": 10.0,
    "profiled_step_slowdown": 10.0,
    "implausible_records": 0.0,
    "rejected": 0.0,
    "truncated": 0.0,
    "missing_ranks": 0.0,
}
"""Health metrics to compare, with the minimum reported difference: shares in percent, counts 0."""

Facts = Mapping[tuple[str, str], tuple[str, Weight]]
"""Settings of a side, as text, by subject and name."""


def facts_of(traces: Sequence[Trace]) -> Facts:
    """Return the settings of one side; if its runs differ, all values of a setting."""
    result: dict[tuple[str, str], tuple[list[str], Weight]] = {}
    for trace in traces:
        for subject, name, value, weight in _facts(trace):
            texts, _ = result.setdefault((subject, name), ([], weight))
            if value not in texts:
                texts.append(value)
    return {key: (", ".join(texts), weight) for key, (texts, weight) in result.items()}


def _facts(trace: Trace) -> Iterator[tuple[str, str, str, Weight]]:
    columns = [
        (subject, name, weight)
        for (subject, weight), names in _OF_RUN.items()
        for name in names.split()
    ]
    selected = ", ".join(name for _, name, _ in columns)
    packages: dict[str, Any] = {}
    has_run = False
    for row in trace.sql(f"SELECT {selected}, packages, variables FROM run ORDER BY rowid LIMIT 1"):
        has_run = True
        for (subject, name, weight), value in zip(columns, row, strict=False):
            if value is not None and value != []:
                yield subject, name, _text(value), weight
        packages = _object(row[-2])
        for name, value in sorted(_object(row[-1]).items()):
            yield "environment", name, _text(value), "note"
    for name, value in sorted(packages.items()):
        is_telling = name in ("torch", "triton")
        yield "software", name, _text(value), "matters" if is_telling else "note"
    flags = ", ".join(f"bool_or({flag})" for flag in _FLAGS)
    (row,) = trace.sql(f"SELECT {flags}, any_value(world_size), any_value(backend) FROM trace")
    for flag, value in zip(_FLAGS, row, strict=False):
        yield "profiler", flag, "on" if value else "off", "matters"
    if not has_run:
        if row[-2] is not None:
            yield "workload", "world_size", str(row[-2]), "matters"
        devices = trace.sql("SELECT DISTINCT name FROM device WHERE name IS NOT NULL ORDER BY 1")
        names = [name for (name,) in devices]
        if names:
            yield "device", "devices", ", ".join(names), "matters"
    ((is_compiled,),) = trace.sql("SELECT EXISTS (FROM compiled_regions)")
    yield "workload", "compiled", "yes" if is_compiled else "no", "matters"
    if row[-1] is not None:
        yield "workload", "backend", row[-1], "matters"
    (accelerators,) = trace.sql("SELECT string_agg(DISTINCT accelerator, ', ') FROM accelerator")
    if accelerators[0] is not None:
        yield "device", "accelerator", accelerators[0], "matters"


def _text(value: Any) -> str:
    if isinstance(value, list):
        counts = {one: value.count(one) for one in value}
        return ", ".join(
            f"{count} × {one}" if count > 1 else str(one) for one, count in counts.items()
        )
    return str(value)


def _object(text: str | None) -> dict[str, Any]:
    result = json.loads(text) if text else {}
    return result if isinstance(result, dict) else {}


Health = Mapping[str, float]
"""Health metrics by name: the worst value of a side's traces."""


def health_of(traces: Sequence[Trace]) -> Health:
    result: dict[str, list[float]] = {}
    for trace in traces:
        for row in trace.health().to_dicts():
            if row["metric"] in _HEALTH and row["value"] is not None:
                result.setdefault(row["metric"], []).append(float(row["value"]))
    return {
        metric: min(values) if metric.startswith("device_time_") else max(values)
        for metric, values in result.items()
    }


def unlike(base: Facts, new: Facts, health: Sequence[Health]) -> list[Unlike]:
    """Return the differences, most important first.

    A setting known on one side only is not a difference, except the device.
    """
    results = []
    for subject, name in dict.fromkeys([*base, *new]):
        key = subject, name
        is_known = key in base and key in new
        if is_known and base[key][0] != new[key][0]:
            results.append(Unlike(subject, name, base[key][0], new[key][0], base[key][1]))
        elif not is_known and name == "devices":
            one, other = (side[key][0] if key in side else None for side in (base, new))
            results.append(Unlike(subject, name, one, other, "matters"))
    for metric, limit in _HEALTH.items():
        sides = [side[metric] for side in health if metric in side]
        if len(sides) == 2 and abs(sides[0] - sides[1]) > limit:
            unit = " %" if limit else ""
            base_text, new_text = (f"{value:.1f}".removesuffix(".0") + unit for value in sides)
            results.append(Unlike("health", metric, base_text, new_text, "note"))
    return sorted(results, key=lambda one: one.weight != "matters")
