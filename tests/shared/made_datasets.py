"""Datasets of small runs."""

from tracekit.analysis.scopes import Contents
from tracekit.engine.choice import EngineChoice
from tracekit.engine.many_ranks import DistributedIngest, ingest_dataset
from tracekit.ingest.sources import find_sources
from tracekit.storage import Location

SERIAL = EngineChoice("serial", worker_count=3)


def make(folder, name="run.tracekit", **options):
    """Create a dataset from the folder `run` next to it."""
    ingest_dataset([folder / "run"], folder / name, engine=SERIAL, **options)
    return folder / name


def make_with_timeline(run, output, engine=SERIAL):
    """Create a dataset with one analysis, for tests that do not read the others."""
    many = DistributedIngest(find_sources([run]), Contents(True, (), False, False), engine)
    return many.make(Location.of(output), ["timeline"])
