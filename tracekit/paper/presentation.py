"""Turn a comparison into results: one flat table for programs, short ones for people."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.analysis.result import Column, Result
from tracekit.paper.runs import OurRun
from tracekit.paper.side_by_side import Comparison, Line
from tracekit.paper.tables import Cell, PaperTable, Row, load_tables

_LABELS: tuple[tuple[str, str], ...] = (
    ("hardware", "VARCHAR"),
    ("model", "VARCHAR"),
    ("method", "VARCHAR"),
    ("batch_size", "BIGINT"),
    ("sequence_length", "BIGINT"),
    ("world_size", "BIGINT"),
    ("engine", "VARCHAR"),
    ("precision", "VARCHAR"),
    ("load", "VARCHAR"),
)
_FEW_RUNS = 4


def flat_result(comparison: Comparison) -> Result:
    """Return every line with all that is known of both sides, for programs."""
    columns = [Column(name, kind) for name, kind in comparison.name_columns]
    for name, kind in comparison.figure_columns:
        if name in comparison.paper_figures:
            columns.append(Column(f"paper_{name}", kind))
        columns.append(Column(f"our_{name}", kind))
    columns += [Column(name, "VARCHAR") for name in ("as_printed", "run", "note")]
    taken = {column.name for column in columns}
    columns += [
        Column(f"{side}_{name}", kind)
        for side in ("paper", "our")
        for name, kind in _LABELS
        if f"{side}_{name}" not in taken
    ]
    rows = []
    for line in comparison.lines:
        cells: Row = dict(line.names)
        if line.paper is not None:
            facts = _paper_facts(comparison.table, line.paper)
            cells |= {f"paper_{name}": value for name, value in facts.items()}
            cells |= {f"paper_{name}": value for name, value in line.paper.items()}
            cells["as_printed"] = line.paper.get("as_printed")
        if line.run is not None:
            cells |= {f"our_{name}": value for name, value in _our_facts(line.run).items()}
            cells["run"] = line.run.label
        cells |= {f"our_{name}": value for name, value in (line.ours or {}).items()}
        cells["note"] = line.note
        rows.append(tuple(cells.get(column.name) for column in columns))
    return Result(comparison.table.name, tuple(columns), rows)


def beside_result(comparison: Comparison) -> Result:
    """Return the rows of the paper with ours beside them, without labels, for people."""
    lines = [line for line in comparison.lines if line.paper is not None]
    # One platform stands above the table already.
    is_said = len({line.names.get("platform") for line in lines}) == 1
    names = [item for item in comparison.name_columns if not (is_said and item[0] == "platform")]
    columns = [Column(name, kind) for name, kind in names]
    wanted = [(name, kind) for name, kind in comparison.figure_columns if name != "outcome"]
    for name, kind in wanted:
        if name in comparison.paper_figures:
            columns.append(Column(f"paper_{name}", kind))
        columns.append(Column(f"our_{name}", kind))
    columns += [Column("our_outcome", "VARCHAR"), Column("run", "VARCHAR")]
    rows = []
    for line in lines:
        cells: dict[str, Cell] = dict(line.names)
        cells |= {f"paper_{name}": value for name, value in (line.paper or {}).items()}
        cells |= {f"our_{name}": value for name, value in (line.ours or {}).items()}
        cells["run"] = line.run.label if line.run else None
        rows.append(tuple(cells.get(column.name) for column in columns))
    return _without_empty(Result(comparison.table.name, tuple(columns), rows))


def alone_result(comparison: Comparison) -> Result:
    """Return what of ours stands beside no row of the paper, with the reason, for people."""
    lines = [line for line in comparison.lines if line.paper is None]
    columns = [Column("run", "VARCHAR")]
    columns += [Column(name, kind) for name, kind in comparison.name_columns if name != "platform"]
    wanted = [item for item in comparison.figure_columns if item[0] in comparison.our_figures]
    columns += [Column(name, kind) for name, kind in wanted]
    columns.append(Column("note", "VARCHAR"))
    rows = []
    for line in lines:
        cells: dict[str, Cell] = {**line.names, **(line.ours or {}), "note": line.note}
        cells["run"] = line.run.label if line.run else None
        rows.append(tuple(cells.get(column.name) for column in columns))
    return _without_empty(Result("ours", tuple(columns), rows))


def sides(comparison: Comparison) -> list[tuple[str, str]]:
    """Return what each side was measured on: the side, and its facts as one text.

    Nothing for a table that is itself about the hardware.
    """
    if "stage" not in comparison.table.setup:
        return []
    found: dict[str, list[str]] = {}
    for line in comparison.lines:
        if line.paper is not None:
            found.setdefault(_text(_paper_facts(comparison.table, line.paper)), [])
    paper = [("paper", facts) for facts in found]
    found = {}
    for line in comparison.lines:
        if line.run is not None:
            labels = found.setdefault(_text(_our_facts(line.run)), [])
            if line.run.label not in labels:
                labels.append(line.run.label)
    ours = [("ours", f"{facts} ({_names(labels)})") for facts, labels in found.items()]
    return paper + ours


def remarks(comparison: Comparison) -> list[str]:
    """Return what has to be said of single lines: cells as printed, and runs without figures."""
    found: list[str] = []
    for line in comparison.lines:
        if line.paper is None:
            continue
        what = ", ".join(str(value) for value in line.names.values() if value is not None)
        if line.paper.get("as_printed"):
            found.append(f"as printed: {what}: {line.paper['as_printed']}")
        if line.run is not None and line.note:
            found.append(f"{line.run.label}: {what}: {line.note}")
    return list(dict.fromkeys(found))


def count_without_run(lines: Sequence[Line]) -> int:
    """Return how many rows of the paper have no run of ours."""
    return sum(line.paper is not None and line.run is None for line in lines)


def _text(facts: dict[str, Cell]) -> str:
    parts = [facts["hardware"], facts["model"]]
    parts += [
        f"{name.replace('_', ' ')} {facts[name]}"
        for name in ("sequence_length", "world_size")
        if facts[name] is not None
    ]
    parts += [facts["load"], facts["engine"], facts["precision"]]
    return " · ".join(str(part) for part in parts if part is not None)


def _names(labels: Sequence[str]) -> str:
    if len(labels) <= _FEW_RUNS:
        return ", ".join(labels)
    return f"{', '.join(labels[:_FEW_RUNS])} and {len(labels) - _FEW_RUNS} more"


def _our_facts(run: OurRun) -> dict[str, Cell]:
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
        "method": stated.opt,
        "batch_size": stated.batch_size,
        "sequence_length": stated.sequence_length,
        "world_size": stated.parallel.world_size,
        "engine": stated.engine,
        "precision": stated.precision,
        "load": load,
    }


def _paper_facts(table: PaperTable, row: Row) -> dict[str, Cell]:
    facts: dict[str, Cell] = {name: table.fact(row, name) for name, _ in _LABELS}
    facts["hardware"] = _paper_hardware(table.fact(row, "platform"))
    facts["engine"] = table.fact(row, "framework")
    if table.setup.get("stage") == "serve":
        shape = "batch {batch_size}, {prompt_length} + {output_length} tokens"
        facts["load"] = shape.format(**table.setup)
    return facts


def _paper_hardware(platform: object) -> str | None:
    """Return GPUs and network of a platform of the paper, by its table of platforms."""
    if not isinstance(platform, str):
        return None
    name, _, variant = platform.partition(" ")
    for row in load_tables()["table1"].rows:
        if row["platform"] == name:
            return f"{row['gpu_count']} × {row['gpu']}, {variant or row['network']}"
    return platform


def _without_empty(result: Result) -> Result:
    """Leave out the columns that say nothing in any row."""
    kept = [
        place
        for place in range(len(result.columns))
        if any(row[place] is not None for row in result.rows)
    ]
    return Result(
        result.name,
        tuple(result.columns[place] for place in kept),
        [tuple(row[place] for place in kept) for row in result.rows],
    )
