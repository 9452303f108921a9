"""Making a dataset that is kept, from the traces of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.contents import Contents
from tracekit.engine.many_ranks import EngineChoice, ManyRanks
from tracekit.errors import UsageError
from tracekit.ingest.run_folders import has_benchmarks, has_requests
from tracekit.ingest.sources import find_sources, named_paths
from tracekit.storage import Location, Place

if TYPE_CHECKING:
    from tracekit.dataset.manifest import Manifest
    from tracekit.engine.making import RunProgress


def ingest_dataset(
    paths: Sequence[str | Place],
    output: str | Place,
    *,
    force: bool = False,
    rules: Path | None = None,
    engine: EngineChoice | None = None,
    progress: Callable[[RunProgress], None] | None = None,
) -> Manifest:
    """Make a dataset from traces; where one broke off or lacks some, only those are read.

    Args:
        paths: trace files, folders or globs of them: the ranks of one run; also URLs.
        output: the folder to write; its name ends in ``.tracekit``.
        force: replace a dataset that lies there.
        rules: a rules file for the classifier, before the built-in rules.
        engine: how the traces are read; None for processes of this machine.
        progress: called when some of the traces have been read.

    Returns:
        The manifest: what is in the dataset, and what is not.

    Raises:
        TraceError: a path does not exist, or not one trace can be read.
        StoreError: the dataset exists, or cannot be written.
        UsageError: the rules file is not valid, the name is none of a dataset, or the engine cannot
            be had.
    """
    from tracekit.analysis.catalog import load_catalog

    dataset = Location.of(output)
    if dataset.suffix != ".tracekit":
        raise UsageError(
            f"{dataset.shown}: a dataset's name ends in .tracekit, a store's in .duckdb"
        )
    if rules is not None:
        from tracekit.analysis.recipe import check_rules

        check_rules(rules)
    with named_paths():
        sources = find_sources(paths)
    if not sources.traces:
        raise UsageError(
            "a dataset is made of the traces of one run, and here are none, or several runs",
            hint="give the folder of one run",
        )
    contents = Contents(
        bool(sources.traces),
        tuple(map(str, sources.runs)),
        any(map(has_requests, sources.runs)),
        any(map(has_benchmarks, sources.runs)),
    )
    # What asks for a value cannot be answered before one is given.
    answerable = [
        name
        for name, spec in load_catalog().analyses.items()
        if spec.scope == "trace" and not spec.needs and not any(p.is_required for p in spec.params)
    ]
    many = ManyRanks(sources, contents, engine or EngineChoice(), rules, progress)
    return many.make(dataset, answerable, replaces=force)
