"""Compares the paper's figures with those of runs, matched by facts that the paper states.

A fact that the paper states about a row is either a key or part of the setup. A run matches a row
with equal keys. Differences of the setup are marked.

- Stage and method are always keys. `ZeRO-2` and `ZeRO-3` (tables 14 and 16) match any method with
  that ZeRO stage.
- Other keys are the facts that distinguish the rows of a table:

      table 2             framework, batch size
      tables 3, 9         model
      table 4             model; the batch size is a result, the largest that fits
      tables 5, 7         phase
      table 6             phase, module
      table 8             phase; the time is for one layer
      table 10            part, task
      table 11            section
      table 12            n and k of the GEMM; m follows from batch size and sequence length
      table 13            phase
      tables 14, 16       model
      table 15            only the method

  A run of another model is compared with the rows of the model with the nearest number of
  parameters, and marked. A model with fewer layers counts as the same model, and the number of
  layers is marked.
- Everything else is the setup: model, layers, devices, framework, precision, batch size, sequence
  length, world size, and for serving, the requests. A fact that the run does not state counts as
  different.

Table 1 is about hardware and has neither keys nor a setup: the hardware of the runs is listed below
the paper's. Figures 4, 7, and 9 are not compared. Efficiency (figure 4) compares two runs, and
latency distributions (figures 7 and 9) depend mainly on the load. The analyses scaling and
latency_cdf show these values for runs.

In strict mode, model, layers, and batch size are keys of every table that states them. The
framework is a key in tables about a single framework.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from tracekit.errors import TracekitError, UsageError
from tracekit.paper.measures import MEASURES, Figures, Key, Measure
from tracekit.paper.runs import PARAMETER_COUNTS, OurRun
from tracekit.paper.tables import PaperTable, Row, hint_at_command

NO_SUCH_ROW = "the paper has no such row"
"""Note on figures of a matched run that the paper lacks."""

MARKS = {
    "M": "model",
    "L": "layers",
    "D": "devices",
    "F": "framework",
    "P": "precision",
    "B": "batch size",
    "S": "sequence length",
    "W": "world size",
    "R": "requests",
}
"""Letter in column `mark` for each kind of difference, in display order."""

_ADAPTERS = {"L", "QL", "LFA", "PT"}
_BATCH_IS_RESULT = "table4"
_OF_ONE_FRAMEWORK = frozenset({"table2", "table10", "table11"})
_KEYS = ("model", "framework", "method", "batch_size")
_FEW = 4


class Difference(Struct, frozen=True):
    mark: str
    ours: str
    paper: str

    def __str__(self) -> str:
        return f"{MARKS[self.mark]} {self.ours}, not {self.paper}"


class Line(Struct, frozen=True):
    """A row of the paper, a run, or both. `names` are the identifying cells.

    `note` is the reason why one side is missing.
    """

    names: Row
    paper: Row | None
    run: OurRun | None
    ours: Row | None
    note: str | None
    differences: tuple[Difference, ...] = ()


class Comparison(Struct, frozen=True):
    """A published table next to runs: the lines of each row, then the lines of unmatched runs.

    `name_columns` and `figure_columns` are names with DuckDB types.
    """

    table: PaperTable
    measure: Measure
    lines: tuple[Line, ...]
    name_columns: tuple[tuple[str, str], ...]
    figure_columns: tuple[tuple[str, str], ...]

    @property
    def our_figures(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.measure.figures)

    @property
    def paper_figures(self) -> frozenset[str]:
        return frozenset(column.name for column in self.table.columns)


class _Measured(Struct):
    """Figures of one run, with the keys that already match a row.

    `reason` explains missing figures, and `apart` why figures match no row.
    """

    run: OurRun
    figures: Figures
    reason: str | None = None
    apart: str | None = None
    used: set[Key] = field(default_factory=set)


def compare(
    table: PaperTable,
    runs: Sequence[OurRun],
    platform: str | None = None,
    *,
    is_strict: bool = False,
) -> Comparison:
    if table.name not in MEASURES:
        raise UsageError(
            f"no figure to compare with {table.name}", hint=hint_at_command(table.name)
        )
    return _Matching(table, MEASURES[table.name], is_strict).comparison(runs, platform)


class _Matching(Struct, frozen=True):
    table: PaperTable
    measure: Measure
    is_strict: bool

    def comparison(self, runs: Sequence[OurRun], platform: str | None) -> Comparison:
        # Columns that runs also have are figures; other columns distinguish rows.
        ours = dict(self.measure.figures)
        columns = [(column.name, column.type) for column in self.table.columns]
        theirs = {name: kind for name, kind in columns if name in ours}
        names = [item for item in columns if item[0] not in {*ours, "as_printed", "outcome"}]
        rows = self.table.of_platform(platform)
        measured = [self._take(run) for run in self._candidates(runs)]
        matched = [one for one in measured if one.apart is None]
        lines = [line for row in rows for line in self._lines_next_to(row, matched)]
        lines += [line for one in measured for line in self._unmatched_lines(one)]
        return Comparison(
            self.table,
            self.measure,
            tuple(
                replace(line, names={name: line.names.get(name) for name, _ in names})
                for line in lines
            ),
            tuple(names),
            tuple(
                (theirs | {name: kind for name, kind in ours.items() if name not in theirs}).items()
            ),
        )

    def _is_of_stage(self, run: OurRun) -> bool:
        return self.table.setup.get("stage") in (None, run.manifest.stage)

    def _candidates(self, runs: Sequence[OurRun]) -> list[OurRun]:
        """Omit runs on the same hardware in table 1, and runs with smaller batches in table 4."""
        if "stage" not in self.table.setup:
            once: dict[str, OurRun] = {}
            for run in runs:
                once.setdefault(run.hardware, run)
            return list(once.values())
        if self.table.name != _BATCH_IS_RESULT:
            return list(runs)
        best = _largest_batches([run for run in runs if self._is_of_stage(run)])
        return [run for run in runs if run in best or not self._is_of_stage(run)]

    def _take(self, run: OurRun) -> _Measured:
        if not self._is_of_stage(run):
            return _Measured(run, [], apart=self._unmatched_reason(run))
        if run.manifest.outcome in ("failed", "incomplete"):
            how = "failed" if run.manifest.outcome == "failed" else "is incomplete"
            return _Measured(run, [], f"the run {how}: {run.manifest.reason or 'unknown reason'}")
        try:
            result = _Measured(run, self.measure.take(run))
        except TracekitError as error:
            return _Measured(run, [], error.message)
        theirs = {self._key(row) for row in self.table.rows}
        ours = {key for key, _ in result.figures}
        if ours and not ours & theirs and "stage" in self.table.setup:
            result.apart = f"{self._key_text(ours)}: the paper has {self._key_text(theirs)}"
        return result

    def _key(self, row: Row) -> Key:
        return tuple(row[name] for name in self.measure.key)

    def _key_text(self, keys: set[Key]) -> str:
        return " or ".join(
            ", ".join(f"{name} {value}" for name, value in zip(self.measure.key, key, strict=True))
            for key in sorted(keys, key=str)
        )

    def _lines_next_to(self, row: Row, measured: Sequence[_Measured]) -> Iterator[Line]:
        if "stage" not in self.table.setup:
            yield Line(row, row, None, None, None)
            return
        matches = [
            one for one in measured if all(self._is_same(row, one.run, name) for name in _KEYS)
        ]
        if not matches:
            yield Line(row, row, None, None, f"no run of {self._wanted(row)}")
        key = self._key(row)
        for one in matches:
            one.used.add(key)
            own = [figures for result, figures in one.figures if result == key]
            differing = tuple(_differences(self.table, row, one.run))
            for figures in own:
                yield Line(row, row, one.run, self._named(figures), None, differing)
            if not own:
                note = one.reason or f"the run has no such row in {self.measure.source}"
                yield Line(row, row, one.run, None, note, differing)

    def _unmatched_lines(self, one: _Measured) -> Iterator[Line]:
        run = one.run
        note: str | None = None
        if one.used:
            note = NO_SUCH_ROW
        elif "stage" in self.table.setup:
            note = one.apart or self._unmatched_reason(run)
        names: Row = {
            "model": run.model,
            "method": run.manifest.opt,
            "framework": run.manifest.engine,
        }
        if not one.figures and not one.used:
            why = "; ".join(text for text in (note, one.reason) if text)
            yield Line(names, None, run, None, why)
        for key, figures in one.figures:
            if key not in one.used:
                own_names = names | dict(zip(self.measure.key, key, strict=False))
                yield Line(own_names, None, run, self._named(figures), note)

    def _named(self, figures: Sequence[object]) -> Row:
        names = (name for name, _ in self.measure.figures)
        return dict(zip(names, figures, strict=True))  # type: ignore[arg-type]

    def _is_key(self, name: str) -> bool:
        """Return whether a fact is a key, which must be equal for a run to match a row."""
        if name == "method":
            return True
        if name == "batch_size" and self.table.name == _BATCH_IS_RESULT:
            return False
        if not self.is_strict:
            return _has_column(self.table, name)
        if name == "framework":
            return self.table.name in _OF_ONE_FRAMEWORK
        return name == "model" or self.table.setup.get("stage") != "serve"

    def _is_same(self, row: Row, run: OurRun, name: str) -> bool:
        """Return whether a fact of a run equals that of a row, or is not a key."""
        theirs = self.table.fact(row, name)
        if theirs is None or not self._is_key(name):
            return True
        if name == "model":
            return bool((run.paper_model if self.is_strict else self._nearest_model(run)) == theirs)
        if name == "framework":
            return run.manifest.engine == str(theirs).lower()
        if name == "method":
            return _is_method(str(theirs), run.method)
        return bool(run.manifest.batch_size == theirs)

    def _nearest_model(self, run: OurRun) -> str | None:
        """Return the table's model to compare a run with; None if the run's size is unknown."""
        models = self._facts(self.table.rows, "model")
        if run.base_model in models:
            return run.base_model
        own = run.parameter_count
        if not own:
            return None
        return min(models, key=lambda name: abs(math.log(PARAMETER_COUNTS[name] / own)))

    def _unmatched_reason(self, run: OurRun) -> str:
        manifest = run.manifest
        if not self._is_of_stage(run):
            theirs = self.table.setup["stage"]
            return f"stage {manifest.stage}: the paper's table is for stage {theirs}"
        rows: Sequence[Row] = self.table.rows
        for name in _KEYS:
            fitting = [row for row in rows if self._is_same(row, run, name)]
            if not fitting or name == "batch_size":
                break
            rows = fitting
        facts = self._facts(rows, name)
        listed = " or ".join(facts)
        if name == "method":
            shown = f": it has {listed}" if len(facts) <= _FEW else ""
            return f"method {manifest.opt or 'unknown'}: not in the paper's table{shown}"
        own = {"model": run.model, "framework": manifest.engine, "batch_size": manifest.batch_size}
        what = {"framework": "engine", "batch_size": "batch size"}.get(name, name)
        return f"{what} {own[name]}: the paper has {listed}"

    def _wanted(self, row: Row) -> str:
        result = {
            name: str(fact)
            for name in ("model", "method", "framework", "batch_size")
            if self._is_key(name) and (fact := self.table.fact(row, name)) is not None
        }
        if "batch_size" in result:
            result["batch_size"] = f"batch size {result['batch_size']}"
        return ", ".join(result.values()) or f"stage {self.table.setup['stage']}"

    def _facts(self, rows: Sequence[Row], name: str) -> list[str]:
        result = (self.table.fact(row, name) for row in rows)
        return list(dict.fromkeys(str(value) for value in result if value is not None))


def _has_column(table: PaperTable, name: str) -> bool:
    return any(column.name == name for column in table.columns)


def _largest_batches(runs: Sequence[OurRun]) -> list[OurRun]:
    """Of runs that differ only in batch size, select the one with the largest that fits."""
    best: dict[tuple[object, ...], OurRun] = {}

    def rank(run: OurRun) -> tuple[bool, int]:
        return run.manifest.outcome == "ok", run.manifest.batch_size or 0

    for run in runs:
        stated = run.manifest
        alike = (
            *(run.model, run.method, run.hardware, stated.engine, stated.precision),
            *(stated.sequence_length, stated.parallel.world_size),
        )
        if alike not in best or rank(run) > rank(best[alike]):
            best[alike] = run
    return list(best.values())


def _is_method(printed: str, method: frozenset[str]) -> bool:
    """Return whether a run has the printed method; `ZeRO-2` matches all methods with that stage."""
    if printed.startswith("ZeRO-"):
        return f"Z{printed.removeprefix('ZeRO-')}" in method and not method & _ADAPTERS
    return method == frozenset(printed.split("+"))


def _differences(table: PaperTable, row: Row, run: OurRun) -> Iterator[Difference]:
    """Yield the differences of a run from a row of a table, in the order of :data:`MARKS`."""
    stated = run.manifest
    is_serving = stated.stage == "serve"
    model, platform, framework = (
        table.fact(row, name) for name in ("model", "platform", "framework")
    )
    if model is not None and run.paper_model != model:
        if run.base_model != model:
            yield Difference("M", run.model, str(model))
        else:
            yield Difference("L", str(run.layer_count), str(run.full_layer_count))
    yield from _difference("D", run.hardware, platform, is_same=_has_devices(run, platform))
    is_same = stated.engine == str(framework).lower()
    yield from _difference("F", stated.engine, framework, is_same=is_same)
    yield from _difference("P", stated.precision, table.fact(row, "precision"))
    if not (is_serving or table.name == _BATCH_IS_RESULT or _has_column(table, "batch_size")):
        yield from _difference("B", stated.batch_size, table.fact(row, "batch_size"))
    yield from _difference("S", stated.sequence_length, table.fact(row, "sequence_length"))
    yield from _difference("W", stated.parallel.world_size, table.fact(row, "world_size"))
    if is_serving:
        load = stated.load
        ours = None
        if load is not None:
            ours = _requests(load.request_count, load.prompt_token_count, load.max_new_token_count)
        names = ("batch_size", "prompt_length", "output_length")
        yield from _difference("R", ours, _requests(*map(table.setup.get, names)))


def _difference(
    mark: str, ours: object, paper: object, *, is_same: bool | None = None
) -> Iterator[Difference]:
    if paper is not None and not (ours == paper if is_same is None else is_same):
        yield Difference(mark, "not stated" if ours is None else str(ours), str(paper))


def _has_devices(run: OurRun, platform: object) -> bool:
    """Return whether all accelerators of a run match a platform: `RTX3090 w/ NVLink`."""
    names = [str(platform).partition(" ")[0], *run.manifest.environment.devices]
    name, *devices = (re.sub(r"[^a-z0-9]", "", name.lower()) for name in names)
    return bool(devices) and all(name in device for device in devices)


def _requests(count: object, prompt: object, output: object) -> str | None:
    if None in (count, prompt, output):
        return None
    return f"{count} of {prompt} + {output} tokens"
