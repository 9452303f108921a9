"""Which of our runs stands beside which row of the paper: by what both state, never by guess.

What a row of the paper states of a run is either a key or part of the setup. A run stands beside a
row where the keys are the same; what differs in the setup is said of it (`differences.py`).

- The stage is always a key, and so is the method, for a method is a condition: a run of another one
  is none of the paper's. `ZeRO-2` and `ZeRO-3` (tables 14 and 16) are any method with that stage.
- Beyond these, a key is what tells the rows of the table apart:

      table 2             framework, batch size
      tables 3, 9         model
      table 4             model; the batch size is a result, the largest that fits
      tables 5, 7         phase
      table 6             phase, module
      table 8             phase; the time is that of one layer
      table 10            part, task
      table 11            section
      table 12            n and k of the product; m follows from batch size and sequence length
      table 13            phase
      tables 14, 16       model
      table 15            the method alone

  Where models tell rows apart and the run has none of them, it stands beside the one that is
  nearest in the number of parameters, and the model is said to differ. A model that was cut to some
  of its layers is that model; the layers are said to differ.
- All else is the setup: model, layers, devices, framework, precision, batch size, sequence length,
  world size, and of serving the requests.

Table 1 is about hardware, and has neither: ours is listed below the paper's. Of the figures, 4
would have platform and model as keys, but an efficiency is one of two runs; 7 and 9 would have
framework and model, with a point of a distribution that depends on the load above all. Nothing of
ours is put beside these: analyses scaling and latency_cdf show ours.

Strictly, model, layers and batch size are keys of every table that states them, and the framework
is one of those that are about a single one.
"""

from __future__ import annotations

import math

from tracekit.paper.runs import PARAMETER_COUNTS, OurRun
from tracekit.paper.tables import PaperTable, Row

_ADAPTERS = {"L", "QL", "LFA", "PT"}

BATCH_IS_RESULT = frozenset({"table4"})
"""Tables whose batch size is the largest that fits: a result, not a condition."""
_OF_ONE_FRAMEWORK = frozenset({"table2", "table10", "table11"})


def is_key(table: PaperTable, name: str, *, is_strict: bool = False) -> bool:
    """Whether a fact (model, framework, batch_size) has to be the same for a run to match a row."""
    if name == "batch_size" and table.name in BATCH_IS_RESULT:
        return False
    if not is_strict:
        return any(column.name == name for column in table.columns)
    if name == "framework":
        return table.name in _OF_ONE_FRAMEWORK
    return name == "model" or table.setup.get("stage") != "serve"


def is_of_stage(table: PaperTable, run: OurRun) -> bool:
    """Whether a run is of the stage that a table is about; any run for the hardware."""
    stage = table.setup.get("stage")
    return stage is None or run.manifest.stage == stage


def mismatch(table: PaperTable, row: Row, run: OurRun, *, is_strict: bool = False) -> str | None:
    """Return why a run does not belong to a row, None if it does."""
    if "stage" not in table.setup:
        return "the row is about hardware of the paper's"
    model = table.fact(row, "model")
    if model is not None and is_key(table, "model", is_strict=is_strict):
        own = run.paper_model if is_strict else _model_beside(table, run)
        if own != model:
            return f"the paper has {model}"
    framework = table.fact(row, "framework")
    if (
        framework is not None
        and is_key(table, "framework", is_strict=is_strict)
        and run.manifest.engine != str(framework).lower()
    ):
        return f"the paper has {framework}"
    method = table.fact(row, "method")
    if method is not None and not _is_method(str(method), run.method):
        return f"the paper has {method}"
    batch_size = table.fact(row, "batch_size")
    if (
        batch_size is not None
        and is_key(table, "batch_size", is_strict=is_strict)
        and run.manifest.batch_size != batch_size
    ):
        return f"the paper has batch size {batch_size}"
    return None


def why_alone(table: PaperTable, run: OurRun, *, is_strict: bool = False) -> str:
    """Return why a run belongs to no row of a table: what it differs in from the nearest ones."""
    if not is_of_stage(table, run):
        return f"stage {run.manifest.stage}: the paper's table is of stage {table.setup['stage']}"
    rows = table.rows
    models = _facts(table, rows, "model")
    if models and is_key(table, "model", is_strict=is_strict):
        own = run.paper_model if is_strict else _model_beside(table, run)
        if own not in models:
            return f"model {run.model}: the paper has {_listed(models)}"
        rows = tuple(row for row in rows if table.fact(row, "model") in (None, own))
    if is_key(table, "framework", is_strict=is_strict):
        frameworks = _facts(table, rows, "framework")
        if run.manifest.engine not in {name.lower() for name in frameworks}:
            return f"engine {run.manifest.engine}: the paper has {_listed(frameworks)}"
        engine = run.manifest.engine
        rows = tuple(row for row in rows if str(table.fact(row, "framework")).lower() == engine)
    methods = _facts(table, rows, "method")
    fitting = [name for name in methods if _is_method(name, run.method)]
    if methods and not fitting:
        given = run.manifest.opt or "unknown"
        shown = f": it has {_listed(methods)}" if len(methods) <= _FEW else ""
        return f"method {given}: not in the paper's table{shown}"
    rows = tuple(row for row in rows if table.fact(row, "method") in (None, *fitting))
    sizes = _facts(table, rows, "batch_size")
    return f"batch size {run.manifest.batch_size}: the paper has {_listed(sizes)}"


def describe(table: PaperTable, row: Row, *, is_strict: bool = False) -> str:
    """Return what a run has to be to belong to a row, as text."""
    parts = []
    if is_key(table, "model", is_strict=is_strict):
        parts.append(str(table.fact(row, "model")))
    method = table.fact(row, "method")
    if method is not None:
        parts.append(str(method))
    if is_key(table, "framework", is_strict=is_strict):
        parts.append(str(table.fact(row, "framework")))
    size = table.fact(row, "batch_size")
    if size is not None and is_key(table, "batch_size", is_strict=is_strict):
        parts.append(f"batch size {size}")
    return ", ".join(parts) or f"stage {table.setup['stage']}"


_FEW = 4


def _model_beside(table: PaperTable, run: OurRun) -> str | None:
    """Return the model of the table that a run stands beside, None if its size is not known."""
    models = _facts(table, table.rows, "model")
    if run.base_model in models:
        return run.base_model
    own = run.parameter_count
    if not own:
        return None
    return min(models, key=lambda name: abs(math.log(PARAMETER_COUNTS[name] / own)))


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
