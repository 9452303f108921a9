"""Which of our runs stands beside which row of the paper: by what both state, never by guess.

A run belongs to a row if stage, model, method and batch size are the same, as far as the paper
states them for that row; for serving, if the engine and the model are the same. What a run may
differ in is said beside it: hardware, sequence length, world size and engine.
"""

from __future__ import annotations

from tracekit.paper.runs import OurRun
from tracekit.paper.tables import PaperTable, Row

_ADAPTERS = {"L", "QL", "LFA", "PT"}

BATCH_IS_RESULT = frozenset({"table4"})
"""Tables whose batch size is the largest that fits: a result, not a condition."""
ENGINE_DECIDES = frozenset({"table2", "table10", "table11"})
"""Tables about one framework: a run of another one is none of theirs."""


def is_candidate(table: PaperTable, run: OurRun) -> bool:
    """Whether a run is of the stage that a table is about; any run for the hardware."""
    stage = table.setup.get("stage")
    return stage is None or run.manifest.stage == stage


def mismatch(table: PaperTable, row: Row, run: OurRun) -> str | None:
    """Return why a run does not belong to a row, None if it does."""
    if "stage" not in table.setup:
        return "the row is about hardware of the paper's"
    model = table.fact(row, "model")
    if model is not None and run.paper_model != model:
        return f"the paper has {model}"
    if table.name in ENGINE_DECIDES:
        framework = str(table.fact(row, "framework"))
        if run.manifest.engine != framework.lower():
            return f"the paper has {framework}"
    method = table.fact(row, "method")
    if method is not None and not _is_method(str(method), run.method):
        return f"the paper has {method}"
    batch_size = table.fact(row, "batch_size")
    is_condition = table.name not in BATCH_IS_RESULT and run.manifest.stage != "serve"
    if is_condition and batch_size is not None and run.manifest.batch_size != batch_size:
        return f"the paper has batch size {batch_size}"
    return None


def why_alone(table: PaperTable, run: OurRun) -> str:
    """Return why a run belongs to no row of a table: what it differs in from the nearest ones."""
    rows = table.rows
    models = _facts(table, rows, "model")
    if models and run.paper_model not in models:
        return f"model {run.model}: the paper has {_listed(models)}"
    rows = tuple(row for row in rows if table.fact(row, "model") in (None, run.paper_model))
    if table.name in ENGINE_DECIDES:
        frameworks = _facts(table, rows, "framework")
        if run.manifest.engine not in {name.lower() for name in frameworks}:
            return f"engine {run.manifest.engine}: the paper has {_listed(frameworks)}"
    methods = _facts(table, rows, "method")
    fitting = [name for name in methods if _is_method(name, run.method)]
    if methods and not fitting:
        given = run.manifest.opt or "unknown"
        shown = f": it has {_listed(methods)}" if len(methods) <= _FEW else ""
        return f"method {given}: not in the paper's table{shown}"
    rows = tuple(row for row in rows if table.fact(row, "method") in (None, *fitting))
    sizes = _facts(table, rows, "batch_size")
    return f"batch size {run.manifest.batch_size}: the paper has {_listed(sizes)}"


def describe(table: PaperTable, row: Row) -> str:
    """Return what a run has to be to belong to a row, as text."""
    parts = [str(table.fact(row, "model"))]
    method = table.fact(row, "method")
    if method is not None:
        parts.append(str(method))
    if table.name in ENGINE_DECIDES:
        parts.append(str(table.fact(row, "framework")))
    size = table.fact(row, "batch_size")
    if size is not None and table.name not in BATCH_IS_RESULT and table.setup["stage"] != "serve":
        parts.append(f"batch size {size}")
    return ", ".join(parts)


_FEW = 4


def _is_method(printed: str, method: frozenset[str]) -> bool:
    """Whether our techniques are those that the paper prints.

    `ZeRO-2` is any pre-training with that stage: what else was on, the paper does not say.
    """
    if printed.startswith("ZeRO-"):
        return f"Z{printed.removeprefix('ZeRO-')}" in method and not method & _ADAPTERS
    return method == frozenset(printed.split("+"))


def _facts(table: PaperTable, rows: tuple[Row, ...], name: str) -> list[str]:
    found = (table.fact(row, name) for row in rows)
    return list(dict.fromkeys(str(value) for value in found if value is not None))


def _listed(names: list[str]) -> str:
    return " or ".join(names)
