"""Converts a comparison with arXiv 2311.03687 to one table for programs, short ones for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracekit.analysis.result import Column, Result, columns_of_text
from tracekit.paper.comparison import MARKS, Comparison, Line
from tracekit.paper.runs import OurRun, layer_count_of
from tracekit.paper.tables import PaperTable, Row, load_tables

_LABELS = [
    (column.name, column.type)
    for column in columns_of_text(
        "hardware VARCHAR, model VARCHAR, layer_count BIGINT, method VARCHAR, batch_size BIGINT, "
        "sequence_length BIGINT, world_size BIGINT, engine VARCHAR, precision VARCHAR, load VARCHAR"
    )
]
_FEW_RUNS = 4


def flat_result(comparison: Comparison) -> Result:
    columns = [*comparison.name_columns]
    for name, kind in comparison.figure_columns:
        if name in comparison.paper_figures:
            columns.append((f"paper_{name}", kind))
        columns.append((f"our_{name}", kind))
    columns += [(name, "VARCHAR") for name in ("as_printed", "run", "mark", "differences")]
    columns.append(("note", "VARCHAR"))
    labels = [(f"{side}_{name}", kind) for side in ("paper", "our") for name, kind in _LABELS]
    columns += [item for item in labels if item[0] not in dict(columns)]
    rows = []
    for line in comparison.lines:
        cells: Row = {}
        if line.paper is not None:
            facts = _paper_facts(comparison.table, line.paper)
            cells |= {f"paper_{name}": value for name, value in facts.items()}
            cells["as_printed"] = line.paper.get("as_printed")
        if line.run is not None:
            cells |= {f"our_{name}": value for name, value in _our_facts(line.run).items()}
        cells |= _cells(line)
        cells["differences"] = "; ".join(map(str, line.differences)) or None
        rows.append(cells)
    return _result(comparison.table.name, columns, rows)


def comparison_result(comparison: Comparison) -> Result:
    lines = [line for line in comparison.lines if line.paper is not None]
    # A platform that all lines share is in the heading.
    is_one_platform = len({line.names.get("platform") for line in lines}) == 1
    columns = [
        item for item in comparison.name_columns if not (is_one_platform and item[0] == "platform")
    ]
    by = comparison.measure.by
    columns += [(f"our_{name}", kind) for name, kind in comparison.figure_columns if name in by]
    for name, kind in sorted(
        comparison.figure_columns, key=lambda item: not item[0].endswith("_pct")
    ):
        if name == "outcome" or name in by:
            continue
        if name in comparison.paper_figures:
            columns.append((f"paper_{name}", kind))
        columns.append((f"our_{name}", kind))
    columns += [("our_outcome", "VARCHAR"), ("mark", "VARCHAR"), *_run_column(lines)]
    return _result(comparison.table.name, columns, list(map(_cells, lines)), is_full=False)


def alone_result(comparison: Comparison) -> tuple[str | None, Result]:
    """Return figures of runs that match no row of the paper, and the common reason, if any."""
    lines = [line for line in comparison.lines if line.paper is None and line.ours is not None]
    columns = _run_column(lines)
    columns += [item for item in comparison.name_columns if item[0] != "platform"]
    columns += [item for item in comparison.figure_columns if item[0] in comparison.our_figures]
    notes = {line.note for line in lines}
    if len(notes) > 1:
        columns.append(("note", "VARCHAR"))
    rows = [_cells(line) | (line.ours or {}) for line in lines]
    why = notes.pop() if len(notes) == 1 else None
    return why, _result("ours", columns, rows, is_full=False)


def _run_column(lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Return a column for the run if there are several; a single run is in the heading."""
    several = len({line.run.label for line in lines if line.run}) > 1
    return [("run", "VARCHAR")] if several else []


def _cells(line: Line) -> Row:
    cells: Row = dict(line.names)
    cells |= {f"paper_{name}": value for name, value in (line.paper or {}).items()}
    cells |= {f"our_{name}": value for name, value in (line.ours or {}).items()}
    cells["mark"] = "".join(one.mark for one in line.differences) or None
    cells["run"] = line.run.label if line.run else None
    cells["note"] = line.note
    return cells


def _result(
    name: str, columns: Sequence[tuple[str, str]], rows: Sequence[Row], *, is_full: bool = True
) -> Result:
    """Return rows as a result. Columns without values are omitted unless `is_full`."""
    shown = [
        Column(key, kind)
        for key, kind in columns
        if is_full or any(cells.get(key) is not None for cells in rows)
    ]
    return Result(
        name, tuple(shown), [tuple(cells.get(one.name) for one in shown) for cells in rows]
    )


def sides(comparison: Comparison) -> list[tuple[str, str]]:
    stage = comparison.table.setup.get("stage")
    if stage is None:
        return []
    paper: dict[str, None] = {}
    ours: dict[str, list[str]] = {}
    for line in comparison.lines:
        if line.paper is not None:
            paper[_text(comparison, _paper_facts(comparison.table, line.paper))] = None
        if line.run is not None and line.run.manifest.stage == stage:
            labels = ours.setdefault(_text(comparison, _our_facts(line.run)), [])
            if line.run.label not in labels:
                labels.append(line.run.label)
    results = [("paper", facts) for facts in paper]
    return results + [("ours", f"{facts} ({_names(labels)})") for facts, labels in ours.items()]


def setup_remarks(comparison: Comparison) -> list[str]:
    with_ours = [line for line in comparison.lines if line.paper is not None and line.ours]
    differing = [line for line in with_ours if line.differences]
    results = []
    if differing:
        results.append(
            f"{len(differing)} of {len(with_ours)} rows with measured values come from a run that "
            f"differs from the paper's, as marked: {', '.join(_differences(differing))}"
        )
    return results


def _differences(lines: Sequence[Line]) -> list[str]:
    results = []
    for mark, fact in MARKS.items():
        own = [one for line in lines for one in line.differences if one.mark == mark]
        if own:
            ours, theirs = _listed(one.ours for one in own), _listed(one.paper for one in own)
            where = f" in {len(own)}" if len(own) < len(lines) else ""
            results.append(f"{mark} {fact}{where} ({ours}, not {theirs})")
    return results


def _listed(texts: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    if len(distinct) > _FEW_RUNS:
        return f"{', '.join(distinct[:_FEW_RUNS])} or others"
    return " or ".join(distinct)


def remarks(comparison: Comparison) -> list[str]:
    printed: list[str] = []
    apart: dict[str, list[str]] = {}
    missing: dict[tuple[str, str], list[str]] = {}
    for line in comparison.lines:
        label = line.run.label if line.run else ""
        if line.paper is None:
            if line.ours is None and line.run is not None:
                apart.setdefault(line.note or "", []).append(label)
            continue
        what = ", ".join(str(value) for value in line.names.values() if value is not None)
        if line.paper.get("as_printed"):
            printed.append(f"as printed: {what}: {line.paper['as_printed']}")
        if line.run is not None and line.note:
            missing.setdefault((label, line.note), []).append(what)
    results = [f"{_names(labels)}: {note}" for note, labels in apart.items()]
    results += [
        f"{subject}: {'; '.join(dict.fromkeys(rows))}: {why}"
        for (subject, why), rows in missing.items()
    ]
    return [*results, *dict.fromkeys(printed)]


def count_without_run(lines: Sequence[Line]) -> int:
    return sum(line.paper is not None and line.run is None for line in lines)


def _text(comparison: Comparison, facts: Row) -> str:
    parts = [facts["hardware"], facts["model"]]
    # The rows already show the batch size if it is a key or a figure.
    is_in_rows = any(column.name == "batch_size" for column in comparison.table.columns)
    parts += [
        f"{name.replace('_', ' ')} {facts[name]}"
        for name in ("batch_size", "sequence_length", "world_size")
        if facts[name] is not None and not (name == "batch_size" and (is_in_rows or facts["load"]))
    ]
    parts += [facts["load"], facts["engine"], facts["precision"]]
    return " · ".join(str(part) for part in parts if part is not None)


def _names(labels: Sequence[str]) -> str:
    if len(labels) <= _FEW_RUNS:
        return ", ".join(labels)
    return f"{', '.join(labels[:_FEW_RUNS])} and {len(labels) - _FEW_RUNS} more"


def _our_facts(run: OurRun) -> Row:
    stated = run.manifest
    load = None
    if stated.load is not None:
        load = (
            f"{stated.load.request_count} requests of {stated.load.prompt_token_count} + "
            f"{stated.load.max_new_token_count} tokens, {stated.load.arrival}"
        )
    return {
        "hardware": run.hardware,
        "model": run.model,
        "layer_count": run.layer_count,
        "method": stated.opt,
        "batch_size": stated.batch_size,
        "sequence_length": stated.sequence_length,
        "world_size": stated.parallel.world_size,
        "engine": stated.engine,
        "precision": stated.precision,
        "load": load,
    }


def _paper_facts(table: PaperTable, row: Row) -> Row:
    facts: Row = {name: table.fact(row, name) for name, _ in _LABELS}
    facts["hardware"] = platform = table.fact(row, "platform")
    # GPUs and network from the paper's table of platforms.
    name, _, variant = str(platform).partition(" ")
    for known in load_tables()["table1"].rows:
        if known["platform"] == name:
            network = variant or known["network"]
            facts["hardware"] = f"{known['gpu_count']} × {known['gpu']}, {network}"
    facts["engine"] = table.fact(row, "framework")
    facts["layer_count"] = layer_count_of(table.fact(row, "model"))
    if table.setup.get("stage") == "serve":
        shape = "batch {batch_size}, {prompt_length} + {output_length} tokens"
        facts["load"] = shape.format(**table.setup)
    return facts
